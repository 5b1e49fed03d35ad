package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	pluginSocket  = "gpu-plugin.sock"
	pollInterval  = 200 * time.Millisecond
	registerLimit = 3 * time.Second
)

// gpuPlugin is a device plugin whose devices are only names. A file with the name of a device in the folder `unhealthy`
// makes the device unhealthy.
type gpuPlugin struct {
	api.UnimplementedDevicePluginServer
	folder, resource, prefix, unhealthy string
	count                               int
}

func newGPUPluginCommand() *cobra.Command {
	plugin := &gpuPlugin{}
	command := &cobra.Command{
		Use:  "gpu-plugin",
		RunE: func(*cobra.Command, []string) error { return plugin.run() },
	}
	flags := command.Flags()
	flags.StringVar(&plugin.folder, "folder", "/var/lib/kubelet/device-plugins", "folder of the kubelet's sockets")
	flags.StringVar(&plugin.resource, "resource", "nvidia.com/gpu", "name of the extended resource")
	flags.StringVar(&plugin.prefix, "prefix", "GPU", "beginning of the device names")
	flags.StringVar(&plugin.unhealthy, "unhealthy", "", "folder whose file names are unhealthy devices")
	flags.IntVar(&plugin.count, "count", 8, "number of devices")
	return command
}

// run serves the devices. The kubelet empties its folder at its start, so the plugin serves and registers again whenever
// its socket is missing.
func (p *gpuPlugin) run() error {
	path := filepath.Join(p.folder, pluginSocket)
	for {
		server, err := p.serve(path)
		if err == nil {
			fmt.Println("registered", p.count, p.resource)
			for exists(path) {
				time.Sleep(pollInterval)
			}
			server.Stop()
		} else if !errors.Is(err, os.ErrNotExist) {
			fmt.Println(err)
		}
		time.Sleep(pollInterval)
	}
}

// serve listens on the socket and registers it with the kubelet.
func (p *gpuPlugin) serve(path string) (*grpc.Server, error) {
	if _, err := os.Stat(filepath.Join(p.folder, "kubelet.sock")); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go server.Serve(listener)
	if err := p.register(); err != nil {
		server.Stop()
		return nil, fmt.Errorf("register: %w", err)
	}
	return server, nil
}

func (p *gpuPlugin) register() error {
	address := "unix://" + filepath.Join(p.folder, "kubelet.sock")
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	deadline, cancel := context.WithTimeout(context.Background(), registerLimit)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(deadline, &api.RegisterRequest{
		Version: api.Version, Endpoint: pluginSocket, ResourceName: p.resource, Options: &api.DevicePluginOptions{}})
	return err
}

// GetDevicePluginOptions implements the device plugin API.
func (p *gpuPlugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices at first, and whenever the health of one has changed.
func (p *gpuPlugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	last := ""
	for {
		devices, state := p.devices()
		if state != last {
			if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
				return err
			}
			last = state
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(pollInterval):
		}
	}
}

// devices returns the devices and a text that differs when the health of one differs.
func (p *gpuPlugin) devices() ([]*api.Device, string) {
	devices, state := []*api.Device{}, ""
	for number := range p.count {
		id, health := fmt.Sprintf("%s-%d", p.prefix, number), api.Healthy
		if p.unhealthy != "" && exists(filepath.Join(p.unhealthy, id)) {
			health = api.Unhealthy
		}
		devices, state = append(devices, &api.Device{ID: id, Health: health}), state+health
	}
	return devices, state
}

// Allocate names the devices of a container in NVIDIA_VISIBLE_DEVICES, as the plugin of NVIDIA does.
func (p *gpuPlugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		devices := strings.Join(container.DevicesIds, ",")
		fmt.Println(time.Now().Format(time.RFC3339Nano), "allocate", devices)
		response.ContainerResponses = append(response.ContainerResponses,
			&api.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": devices}})
	}
	return response, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
