package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/cloud/cloudtail"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

// cloudFollowing holds the flags of cloud tail.
type cloudFollowing struct {
	url          string
	username     string
	passwordFile string
	ca           string
	certificate  string
	key          string
	clientID     string
	gateway      string
	state        string
	noAck        bool
}

const cloudTailLong = `Do what an application in the cloud does: take what gateways hand up, print it, and
acknowledge it. Records of a gateway's journal come in order, each once; what is
missing is said and asked for again. Ends with Ctrl-C.

A gateway counts every record that is acknowledged as delivered, and never sends it
again. Where an application takes the records already, look on with --no-ack.

Without --url the broker is that of [cloud] in this gateway's configuration. Its login
is the gateway's own, which should have no right to all this: give the application's
with --username and --password-file, or --certificate and --key.

With --state, it goes on after a restart where it was: FILE says which record of each
gateway came last. Without, it begins with the first record that the gateway does not
count as delivered; until that is sure, records are shown as live.`

const cloudTailExample = `  gatehouse cloud tail --no-ack
  gatehouse cloud tail --url tls://mqtt.example.test:8883 --username app --password-file app.password
  gatehouse cloud tail --gateway 6f1c7a3e-3f5b-4d0c-9a55-0d8c5a1f2b3c --state tail.state --json >> records.json`

func (a *app) cloudTailCommand() *cobra.Command {
	var flags cloudFollowing
	cmd := &cobra.Command{
		Use:     "tail",
		Short:   "Follow what gateways hand up, as an application does",
		Long:    cloudTailLong,
		Example: cloudTailExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := passwordOfWhom(flags.username, flags.passwordFile); err != nil {
				return err
			}
			return takes()(cmd, args)
		},
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.cloudTail(ctx, flags) }),
	}
	f := cmd.Flags()
	f.StringVar(&flags.url, "url", "", "connect to the broker at `URL`, tls://host:8883 or tcp://host:1883")
	f.StringVar(&flags.username, "username", "", "log in as the user `NAME` of the broker")
	f.StringVar(&flags.passwordFile, "password-file", "", "with the password in the first line of `FILE`")
	f.StringVar(&flags.ca, "ca", "", "trust the certificates of this PEM `FILE` (default the system's)")
	f.StringVar(&flags.certificate, "certificate", "", "show the client certificate in this PEM `FILE`")
	f.StringVar(&flags.key, "key", "", "its private key is in this PEM `FILE`")
	f.StringVar(&flags.clientID, "client-id", "", "connect with the MQTT client `ID` (default a random one)")
	f.StringVar(&flags.gateway, "gateway", "", "only the gateway with the `ID` (default all that the login may see)")
	f.StringVar(&flags.state, "state", "", "keep in `FILE` how far the records have come")
	f.BoolVar(&flags.noAck, "no-ack", false, "acknowledge nothing: look on")
	return cmd
}

// passwordOfWhom refuses a password that would not be looked at.
func passwordOfWhom(username, passwordFile string) error {
	if passwordFile != "" && username == "" {
		return errors.New("--password-file is the password of a user: it needs --username")
	}
	return nil
}

func (a *app) cloudTail(ctx context.Context, flags cloudFollowing) error {
	cfg := cloudtail.Config{
		Gateway: cloudtail.All, Acknowledge: !flags.noAck, State: flags.state,
		Handle: func(e cloudtail.Event) error {
			return a.result(e, func(w *lines) { a.printEvent(w, e) })
		},
	}
	if flags.gateway != "" {
		id, err := a.gatewayID(ctx, flags.gateway)
		if err != nil {
			return err
		}
		cfg.Gateway = id
	}
	var err error
	if cfg.Broker, err = a.tailBroker(flags); err != nil {
		return err
	}
	err = cloudtail.Run(ctx, cfg)
	if dial, ok := errors.AsType[*mqttclient.DialError](err); ok && dial.Advice != "" {
		return fmt.Errorf("%w; %s", err, lowerFirst(dial.Advice))
	}
	return err
}

// tailKeepalive is the keepalive of MQTT where no configuration states one.
const tailKeepalive = 30 * time.Second

// tailBroker says which broker is meant, and who connects.
func (a *app) tailBroker(flags cloudFollowing) (mqttclient.Config, error) {
	var broker mqttclient.Config
	if flags.url != "" {
		broker = mqttclient.Config{URL: flags.url, KeepAlive: tailKeepalive}
	} else {
		cfg, err := a.settings()
		if err != nil {
			return broker, err
		}
		c := cfg.Cloud
		if c.URL == "" {
			return broker, errors.New("this gateway has no cloud: give the broker's --url, or set url in [cloud] of the configuration")
		}
		broker = mqttclient.Config{
			URL: c.URL, Username: c.Username, Password: c.Password, KeepAlive: c.Keepalive,
			PasswordFile: source(c.PasswordFile), CA: source(c.CA), Certificate: source(c.Certificate), Key: source(c.Key),
		}
	}
	if flags.username != "" {
		broker.Username, broker.Password, broker.PasswordFile = flags.username, "", flags.passwordFile
	}
	if flags.certificate != "" {
		broker.Certificate, broker.Key = flags.certificate, flags.key
	}
	if flags.ca != "" {
		broker.CA = flags.ca
	}
	if broker.ClientID = flags.clientID; broker.ClientID == "" {
		broker.ClientID = "gatehouse-tail-" + strings.ToLower(rand.Text()[:8])
	}
	return broker, nil
}

// printEvent prints one event for people.
func (a *app) printEvent(w *lines, e cloudtail.Event) {
	when, facts := e.Time, tailText(a, e)
	if e.Record != nil {
		when = e.Record.Time
	}
	w.printf("%s  %-8s  %-12s  %s", a.local(when.Time), printable(shortID(e.Gateway)), e.Kind, printable(facts))
}

// shortID is what tells gateways apart for people.
func shortID(id site.GatewayID) string {
	const most = 8
	if len(id) <= most {
		return string(id)
	}
	return strings.ToValidUTF8(string(id[:most]), "")
}

// tailText says in one line what an event says beside its kind.
func tailText(a *app, e cloudtail.Event) string {
	switch e.Kind {
	case cloudtail.Record, cloudtail.Live:
		if e.Record == nil {
			return ""
		}
		doubt := " "
		if !e.Record.ClockTrusted {
			doubt = "?"
		}
		return fmt.Sprintf("%7d%s  %-17s  %s", e.Record.Seq, doubt, e.Record.Kind, factsText(e.Record.Facts))
	case cloudtail.State:
		s := e.State
		return fmt.Sprintf("station %s  %s  %s  %s  heard %s", e.Station, s.Status, volts(s.BatteryVoltage), lockList(s.Locks), a.stamp(s.LastConnection))
	case cloudtail.Removed:
		return "station " + e.Station.String()
	case cloudtail.Status:
		return statusText(a, e)
	case cloudtail.Result:
		return resultText(e)
	case cloudtail.Gap:
		return fmt.Sprintf("records %d to %d are gone from the gateway", e.From, e.To)
	case cloudtail.Waiting:
		return fmt.Sprintf("records %d to %d have not come; nothing after them is acknowledged", e.From, e.To)
	case cloudtail.Missing:
		return fmt.Sprintf("records %d to %d do not come: the gateway counts them as delivered", e.From, e.To)
	case cloudtail.Restored:
		return fmt.Sprintf("the gateway was restored from a backup: its records from %d on are others than before", e.From)
	default:
		return e.Detail
	}
}

func statusText(a *app, e cloudtail.Event) string {
	text := e.Status.Status
	if e.Status.Version != "" {
		text += "  version " + e.Status.Version
	}
	if e.Status.Since != nil {
		text += "  since " + a.stamp(*e.Status.Since)
	}
	return text
}

func resultText(e cloudtail.Event) string {
	r := e.Result
	text := fmt.Sprintf("%s  %s", r.ID, r.Outcome)
	for _, more := range []string{r.Reason, r.Message} {
		if more != "" {
			text += "  " + more
		}
	}
	if r.First != nil {
		text += fmt.Sprintf("  the first time: %s at %s", r.First.Outcome, r.First.Time)
	}
	return text
}
