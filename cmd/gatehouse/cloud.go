package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
)

const cloudLong = `The cloud link is the gateway's own connection to an MQTT broker elsewhere, set up
in [cloud] of the configuration. States and the journal go up; commands that are signed
with a key that the gateway trusts come down and open doors.`

const cloudExample = `  gatehouse cloud keygen --id front-desk
  gatehouse cloud test --key cloud-front-desk.key
  gatehouse cloud sign 1042 lock-1 --key cloud-front-desk.key | mosquitto_pub -h mqtt.example.test -t gateways/ID/command -q 1 -s`

func (a *app) cloudCommand() *cobra.Command {
	cmd := group("cloud", "Set up and try the link to the cloud", cloudLong)
	cmd.Example = cloudExample
	cmd.AddCommand(a.cloudKeygenCommand(), a.cloudSignCommand(), a.cloudStatusCommand(), a.cloudTestCommand(), a.cloudTailCommand())
	return cmd
}

func (a *app) cloudKeygenCommand() *cobra.Command {
	var id string
	cmd := a.command(&cobra.Command{
		Use:   "keygen [FILE]",
		Short: "Make a key that signs commands from the cloud",
		Long: `Make a key that signs commands from the cloud. Its private half, PKCS #8 in PEM, goes
to FILE, or without it to cloud-KID.key in the current folder. Run it where the commands
are to be signed, so that the private half never leaves that machine. What is printed
is the public half, as a line for the configuration of each gateway that is to trust it.`,
		Example: `  gatehouse cloud keygen
  gatehouse cloud keygen --id front-desk
  gatehouse cloud keygen /root/front-desk.key --id front-desk --json`,
	}, func(_ context.Context, args []string) error { return a.cloudKeygen(strings.Join(args, ""), id) })
	cmd.Flags().StringVar(&id, "id", "", "name the key `KID` (default 16 characters of its fingerprint)")
	return cmd
}

// madeKey is what keygen made, as --json shows it.
type madeKey struct {
	KeyID string `json:"keyId"`
	File  string `json:"file"`
	Key   string `json:"key"` // the text for keys in [cloud]
}

func (a *app) cloudKeygen(path, id string) error {
	key, err := api.Generate(id)
	if err != nil {
		return wrongUsage(err)
	}
	text, err := key.PEM()
	if err != nil {
		return err
	}
	public := key.Public()
	path = cmp.Or(path, "cloud-"+public.ID+".key")
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists already: name another file, or move that one away if no application signs with it", printable(path))
	}
	if err := durable.Write(path, []byte(text.Reveal()), 0o600); err != nil {
		return fmt.Errorf("writing the private key: %w", err)
	}
	return a.result(madeKey{KeyID: public.ID, File: path, Key: public.String()}, func(w *lines) {
		w.printf("The private key is in %s. It belongs to the application that signs commands, and to", printable(path))
		w.printf("no other: with it anyone opens the doors of each gateway that trusts it.")
		w.printf("To trust it, put this line under [cloud] in /etc/gatehouse/gatehouse.toml, or the text in")
		w.printf("quotes into the list that is there, and run \"systemctl reload gatehouse\":")
		w.printf("")
		w.printf("keys = [%q]", public)
	})
}

// cloudSigning holds the flags of cloud sign.
type cloudSigning struct {
	key, gateway, actor, id string
	ttl                     time.Duration

	update, sha256 string
	window         time.Duration
}

const cloudSignLong = `Sign a command that opens one lock of station N ("lock-1", or "1" for short) once, and
print it: a JSON Web Token in one line, to be published to the topic
gateways/ID/command of the cloud's broker at QoS 1, not retained. How it ended comes
on gateways/ID/result. This machine's clock has to be right to within some seconds, and
the gateway must trust the key: see "gatehouse cloud keygen".

With --update and --sha256, and without N and LOCK, the command has the gateway update
itself, where from_cloud = true stands under [update] of its configuration. With
--window it restarts into the new version at a moment of its own in that time, so that
the gateways of a site do not all restart at once. How the update goes on stands in
gateways/ID/status.`

const cloudSignExample = `  gatehouse cloud sign 1042 lock-1 --key cloud-front-desk.key
  gatehouse cloud sign 1042 1 --key front-desk.key --gateway 6f1c7a3e-3f5b-4d0c-9a55-0d8c5a1f2b3c --actor porter@example.test |
    mosquitto_pub -h mqtt.example.test -t gateways/6f1c7a3e-3f5b-4d0c-9a55-0d8c5a1f2b3c/command -q 1 -s
  gatehouse cloud sign --key front-desk.key --gateway 6f1c7a3e-3f5b-4d0c-9a55-0d8c5a1f2b3c --window 4h \
    --update https://updates.example.test/gatehouse_1.3.0_arm64.update --sha256 HEX`

func (a *app) cloudSignCommand() *cobra.Command {
	var flags cloudSigning
	cmd := a.command(&cobra.Command{
		Use:               "sign N LOCK",
		Short:             "Sign a command that opens a lock from the cloud, or updates a gateway",
		Long:              cloudSignLong,
		Example:           cloudSignExample,
		ValidArgsFunction: cobra.NoFileCompletions,
	}, func(ctx context.Context, args []string) error { return a.cloudSign(ctx, args, flags) })
	cmd.Use = "sign {N LOCK | --update URL --sha256 HEX} --key FILE"
	unlocks := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if flags.update != "" {
			return takes()(cmd, args)
		}
		return unlocks(cmd, args)
	}
	f := cmd.Flags()
	f.StringVar(&flags.key, "key", "", "sign with the private key in `FILE`")
	f.StringVar(&flags.gateway, "gateway", "", "for the gateway with the `ID` (default the one that runs here)")
	f.StringVar(&flags.actor, "actor", "", "the journal names `NAME` as who opened (default you)")
	f.DurationVar(&flags.ttl, "ttl", 30*time.Second, "it holds for `TIME`, cut to seconds, 1s to 1m")
	f.StringVar(&flags.id, "jti", "", "its `ID`, which no other command ever has (default a random one)")
	f.StringVar(&flags.update, "update", "", "have the gateway update itself from `URL`, https")
	f.StringVar(&flags.sha256, "sha256", "", "of the update, 64 `HEX` digits")
	f.DurationVar(&flags.window, "window", 0, "restart into the update within `TIME`, 1s to 168h (default at once)")
	_ = cmd.MarkFlagRequired("key") // there is that flag
	return cmd
}

// signedCommand is a signed command, as --json shows it.
type signedCommand struct {
	ID        string         `json:"jti"`
	GatewayID site.GatewayID `json:"gatewayId"`
	Topic     string         `json:"topic"` // where it is to be published
	Expires   site.Timestamp `json:"expires"`
	Token     string         `json:"token"`
}

func (a *app) cloudSign(ctx context.Context, args []string, flags cloudSigning) error {
	cmd, err := commandToSign(args, flags)
	if err != nil {
		return wrongUsage(err)
	}
	cmd.ID, cmd.Actor = cmp.Or(flags.id, uuid.NewString()), cmp.Or(flags.actor, whoami())
	key, err := a.signingKey(flags.key)
	if err != nil {
		return err
	}
	if cmd.Gateway, err = a.gatewayID(ctx, flags.gateway); err != nil {
		return err
	}
	cmd.IssuedAt = a.now()
	cmd.Expires = cmd.IssuedAt.Add(flags.ttl)
	token, err := key.Sign(cmd)
	if err != nil {
		return wrongUsage(err)
	}
	result := signedCommand{
		ID: cmd.ID, GatewayID: cmd.Gateway, Topic: api.Topic(cmd.Gateway, api.CommandLeaf),
		Expires: site.At(cmd.Expires.Truncate(time.Second)), Token: token,
	}
	return a.result(result, func(w *lines) { w.printf("%s", token) })
}

// commandToSign returns what the arguments and flags ask for.
func commandToSign(args []string, flags cloudSigning) (cmd api.Command, err error) {
	if flags.update != "" {
		return api.Command{Name: api.Update, URL: flags.update, SHA256: flags.sha256, Window: flags.window}, nil
	}
	if flags.sha256 != "" || flags.window != 0 {
		return cmd, errors.New("--sha256 and --window are for --update URL")
	}
	cmd.Name = api.Unlock
	if cmd.Station, err = site.ParseStationID(args[0]); err == nil {
		cmd.Lock, err = site.ParseLockID(args[1])
	}
	return cmd, err
}

// signingKey reads a private key, and warns of one that others can read.
func (a *app) signingKey(path string) (api.PrivateKey, error) {
	text, err := os.ReadFile(path) //nolint:gosec // named on the command line
	if err != nil {
		return api.PrivateKey{}, fmt.Errorf("reading the private key: %w", err)
	}
	key, err := api.ParsePrivateKey(text)
	if err != nil {
		return api.PrivateKey{}, fmt.Errorf("reading the private key in %s: %w", printable(path), err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		a.complain("warning: others can read " + printable(path) + ": run chmod 600 on it, and make a new key if anyone may have")
	}
	return key, nil
}

// gatewayID returns the id that is stated, else that of the running gateway.
func (a *app) gatewayID(ctx context.Context, stated string) (id site.GatewayID, err error) {
	if stated != "" {
		if strings.ContainsAny(stated, "/+# \t\r\n\x00") {
			return "", wrongUsagef("--gateway takes the id that \"gatehouse status\" shows, not %q", stated)
		}
		return site.GatewayID(stated), nil
	}
	status, err := a.status(ctx)
	if err != nil {
		err = fmt.Errorf("asking the gateway for its id: %s; elsewhere state it with --gateway", describe(err))
	}
	return status.GatewayID, err
}
