package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/board/slot"
	"gatehouse/internal/board/systemlog"
	"gatehouse/internal/config"
	"gatehouse/internal/gateway"
)

func (a *app) serveCommand() *cobra.Command {
	var check bool
	cmd := a.command(&cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: `Run the gateway in the foreground, until SIGINT or SIGTERM stops it in order; a
second one ends it at once. It logs to standard error. At SIGHUP it reads its
configuration and its certificates again without ending any connection; a wrong
configuration changes nothing.

Without any configuration it keeps its data under ~/.local/state/gatehouse and
listens on 127.0.0.1 only: HTTP on port 8080, MQTT on port 1883. Every key of the
configuration can also be set in the environment; GATEHOUSE_DATA,
GATEHOUSE_HTTP_LISTEN and GATEHOUSE_MQTT_LISTEN move these.

Started by systemd, it takes over the sockets of gatehouse.socket, reports when it is
ready, and feeds the watchdog.`,
		Example: `  gatehouse serve
  gatehouse serve --check
  GATEHOUSE_HTTP_LISTEN=127.0.0.1:0 GATEHOUSE_DATA=/tmp/demo gatehouse serve`,
	}, func(ctx context.Context, _ []string) error {
		if check {
			return a.checkSettings()
		}
		return a.serve(ctx)
	})
	cmd.Flags().BoolVar(&check, "check", false, "only check the configuration and the certificate files that it names")
	return cmd
}

// checked is the result of --check.
type checked struct {
	Valid      bool     `json:"valid"`
	PassedOver []string `json:"passedOver"` // variables of the environment
}

// checkSettings checks whether serve would accept the configuration.
func (a *app) checkSettings() error {
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	if err := gateway.CheckCertificate(cfg); err != nil {
		return err
	}
	foreign := config.Foreign(a.environ)
	return a.result(checked{Valid: true, PassedOver: list(foreign)}, func(w *lines) {
		w.printf("The configuration is right.")
		if len(foreign) > 0 {
			w.printf("Passed over, because they are no settings: %s.", strings.Join(foreign, ", "))
		}
	})
}

// logPatience is how long the end of the process waits for the reader of its log.
const logPatience = 2 * time.Second

func (a *app) serve(ctx context.Context) error {
	machine.LimitMemory()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	signal.Ignore(syscall.SIGPIPE) // the reader of the log may exit
	cfg, err := a.serveSettings()
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		return fmt.Errorf("reading the level of the log: %w", err)
	}
	log := systemlog.New(a.stderr, cfg.Log.Format == "json", level)
	defer log.Close(logPatience)
	gw, err := a.prepare(ctx, cfg, log.Logger(), level)
	if err != nil && ctx.Err() != nil {
		log.Logger().Info("stopped before the gateway was ready", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go a.reloadAt(ctx, hangups, gw)
	return gw.Run(ctx)
}

// prepare makes a gateway that is bound and ready to run.
func (a *app) prepare(ctx context.Context, cfg config.Config, log *slog.Logger, level *slog.LevelVar) (*gateway.Gateway, error) {
	supervisor, err := machine.NewSupervisor()
	if err != nil {
		return nil, err
	}
	sockets, err := machine.Sockets()
	if err != nil {
		return nil, err
	}
	for _, name := range config.Foreign(a.environ) {
		log.Warn("a variable of the environment that is no setting is passed over", "variable", name)
	}
	update, err := slot.Exchange{}.ReadStatus() // root's; there is none but on a board of an image of ours
	return gateway.New(ctx, gateway.Config{
		Config: cfg, Version: version, Logger: log, Level: level,
		Where: a.whereSet, Sockets: sockets, Supervisor: supervisor, TakeBack: err == nil && update.TakeBack,
	})
}

// serveSettings reads the configuration with what the flags of this start add to it.
func (a *app) serveSettings() (config.Config, error) {
	cfg, err := a.settings()
	if err != nil {
		return config.Config{}, err
	}
	cfg.Admin.Socket = cmp.Or(a.namedSocket(), cfg.Admin.Socket)
	if a.json {
		cfg.Log.Format = "json"
	}
	return cfg, nil
}

// whereSet returns where a key of the configuration was set, for errors: "FILE:LINE" or a
// variable, else the key itself.
func (a *app) whereSet(key string) string {
	files, err := config.Files(a.config, a.environ)
	if err != nil {
		return key
	}
	_, sources, _ := config.Lay(files, a.environ)
	return cmp.Or(sources[key].String(), key)
}

// reloadAt has the configuration read again at each hangup, until ctx ends.
func (a *app) reloadAt(ctx context.Context, hangups <-chan os.Signal, gw *gateway.Gateway) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			gw.Reload(ctx, a.serveSettings)
		}
	}
}
