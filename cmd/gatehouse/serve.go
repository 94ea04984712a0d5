package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"gatehouse/internal/config"
	"gatehouse/internal/gateway"
)

func (a *app) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: `Run the gateway in the foreground, until SIGINT or SIGTERM stops it in good order;
a second one ends it at once. It logs to standard error.

Without any configuration it keeps its data under ~/.local/state/gatehouse and
listens on 127.0.0.1 only: HTTP on port 8080, MQTT on port 1883. Every key of the
configuration can also be set in the environment; GATEHOUSE_DATA,
GATEHOUSE_HTTP_LISTEN and GATEHOUSE_MQTT_LISTEN move these.`,
		Example: `  gatehouse serve
  gatehouse serve --config /etc/gatehouse/gatehouse.toml
  GATEHOUSE_HTTP_LISTEN=127.0.0.1:0 GATEHOUSE_DATA=/tmp/demo gatehouse serve`,
		Args: takes(),
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.serve(ctx) }),
	}
}

func (a *app) serve(ctx context.Context) error {
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	cfg.Admin.Socket = cmp.Or(a.namedSocket(), cfg.Admin.Socket)
	if a.json {
		cfg.Log.Format = "json"
	}
	log, err := logger(cfg.Log, a.stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	go noteHangups(ctx, hangups, log)
	gw, err := gateway.New(ctx, gateway.Config{Config: cfg, Version: version, Logger: log})
	if err != nil {
		return err
	}
	return gw.Run(ctx)
}

// noteHangups says that SIGHUP changes nothing, until ctx ends.
func noteHangups(ctx context.Context, hangups <-chan os.Signal, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			log.InfoContext(ctx, "hangup signal ignored: restart the gateway to read its configuration again")
		}
	}
}

// logger makes the log of the gateway.
func logger(cfg config.Log, out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return nil, fmt.Errorf("reading the level of the log: %w", err)
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(out, options)), nil
	}
	return slog.New(slog.NewTextHandler(out, options)), nil
}
