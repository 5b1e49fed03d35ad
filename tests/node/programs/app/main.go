// Command app is the program of the test image: its first argument names what it does.
//
//	serve   serve HTTP until SIGTERM (the default)
//	crash   exit with code 3
//	eat     allocate memory until the kernel ends it
//	finish  exit with code 0
//
// Environment: PORT of serve (8080), READY_AFTER and GRACE of serve as durations (0s).
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const fetchLimit = 2 * time.Second

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
		block := make([]byte, 8<<20)
		for index := range block {
			block[index] = 1
		}
		kept = append(kept, block)
		time.Sleep(20 * time.Millisecond)
	}
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
	http.HandleFunc("/", describe)
	http.HandleFunc("/fetch", fetch)
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
}

func duration(name string) time.Duration {
	found, _ := time.ParseDuration(os.Getenv(name))
	return found
}

// describe returns the process's own view of its container.
func describe(writer http.ResponseWriter, _ *http.Request) {
	host, _ := os.Hostname()
	json.NewEncoder(writer).Encode(map[string]any{
		"hostname": host, "arguments": os.Args[1:], "environment": environment()})
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
