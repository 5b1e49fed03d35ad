// Command controlplane is a Kubernetes control plane, and the programs of a node, in one file: its first argument names
// the component that it runs.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kube-proxy":              proxy.NewProxyCommand,
	"gpu-plugin":              newGPUPluginCommand,
}

func main() {
	if len(os.Args) < 2 {
		fail("name a component: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy or gpu-plugin")
	}
	component := os.Args[1]
	if component == "etcd" {
		etcdmain.Main(os.Args[1:])
		return
	}
	command, known := components[component]
	if !known {
		fail(fmt.Sprintf("there is no component %q", component))
	}
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command()))
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "controlplane: "+message)
	os.Exit(2)
}
