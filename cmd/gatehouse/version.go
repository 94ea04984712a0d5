package main

import (
	"context"
	"runtime"

	"github.com/spf13/cobra"
)

// build identifies this program.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long:  "Print the version of this program. \"gatehouse status\" prints that of the running\ngateway.",
	}, func(context.Context, []string) error {
		info := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		return a.result(info, func(w *lines) { w.printf("gatehouse %s (%s, %s)", info.Version, info.Go, info.Platform) })
	})
}
