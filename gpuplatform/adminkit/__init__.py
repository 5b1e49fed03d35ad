"""The building blocks of the admin; knows no app."""
