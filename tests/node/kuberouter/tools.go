//go:build tools

// Package kuberouter has the modules of kube-router, which enforces NetworkPolicies on the nodes of the tests.
package kuberouter

import _ "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"
