module programs

go 1.26.0
