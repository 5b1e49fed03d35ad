// Command app is the program of the test image: its first argument names what it does.
//
//	serve   serve HTTP until SIGTERM (the default), then exit with STOP_CODE
//	crash   exit with code 3
//	eat     allocate memory until the kernel ends it
//	finish  exit with code 0
//
// Environment of serve: PORT (8080); READY_AFTER and GRACE as durations (0s); STOP_CODE (0); SHARED, the bytes that the
// program writes to /dev/shm before it listens, as a data loader does.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	fetchLimit   = 2 * time.Second
	sharedFolder = "/dev/shm"
	block        = 8 << 20
)

func main() {
	action := "serve"
	if len(os.Args) > 1 {
		action = os.Args[1]
	}
	fmt.Println("start", action, strings.Join(os.Args[min(2, len(os.Args)):], " "))
	switch action {
	case "serve":
		serve()
	case "crash":
		fmt.Println("the program fails")
		os.Exit(3)
	case "eat":
		eat()
	case "finish":
	default:
		fmt.Println("unknown action", action)
		os.Exit(2)
	}
}

func eat() {
	var kept [][]byte
	for {
		kept = append(kept, filled())
		time.Sleep(20 * time.Millisecond)
	}
}

// filled returns a block of memory that the process really uses.
func filled() []byte {
	found := make([]byte, block)
	for index := range found {
		found[index] = 1
	}
	return found
}

func serve() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	if delay := duration("READY_AFTER"); delay > 0 {
		select {
		case <-time.After(delay):
		case <-stop:
			return
		}
	}
	if bytes := number("SHARED"); bytes > 0 {
		if err := write(sharedFolder+"/data", bytes); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	http.HandleFunc("/", describe)
	http.HandleFunc("/fetch", fetch)
	http.HandleFunc("/write", writeFile)
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	go func() {
		fmt.Println(http.ListenAndServe(":"+port, nil))
		os.Exit(1)
	}()
	<-stop
	fmt.Println("SIGTERM")
	time.Sleep(duration("GRACE"))
	os.Exit(number("STOP_CODE"))
}

func number(name string) int {
	found, _ := strconv.Atoi(os.Getenv(name))
	return found
}

// write writes a file of at least this size.
func write(path string, bytes int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	content := filled()
	for written := 0; written < bytes; written += len(content) {
		if _, err := file.Write(content); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file with the path and the bytes of the query.
func writeFile(writer http.ResponseWriter, request *http.Request) {
	bytes, _ := strconv.Atoi(request.URL.Query().Get("bytes"))
	if err := write(request.URL.Query().Get("path"), bytes); err != nil {
		http.Error(writer, err.Error(), http.StatusInsufficientStorage)
	}
}

func duration(name string) time.Duration {
	found, _ := time.ParseDuration(os.Getenv(name))
	return found
}

// describe returns the process's own view of its container.
func describe(writer http.ResponseWriter, _ *http.Request) {
	host, _ := os.Hostname()
	var shared syscall.Statfs_t
	syscall.Statfs(sharedFolder, &shared)
	size := uint64(shared.Bsize)
	json.NewEncoder(writer).Encode(map[string]any{
		"hostname": host, "arguments": os.Args[1:], "environment": environment(),
		"sharedBytes":     shared.Blocks * size,
		"sharedUsedBytes": (shared.Blocks - shared.Bfree) * size,
	})
}

func environment() map[string]string {
	found := map[string]string{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		found[name] = value
	}
	return found
}

// fetch requests the URL of the query, from this container's network; 502 without a response in time. Each request
// has its own connection, because a NetworkPolicy does not end connections.
func fetch(writer http.ResponseWriter, request *http.Request) {
	client := http.Client{Timeout: fetchLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(request.URL.Query().Get("url"))
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	writer.WriteHeader(response.StatusCode)
	io.Copy(writer, response.Body)
}
