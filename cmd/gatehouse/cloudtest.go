package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/config"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
)

const cloudTestLong = `Go through everything that the cloud link needs, step by step: the configuration and
its files, the name of the broker, TCP, TLS, the login, and the rights to subscribe and
to publish. Each step is one line; the first that fails says what to do, and the exit
status is 1. The gateway's own connection stays as it is.

With --key, a command is signed as an application would and sent to the gateway. It is
one that no gateway knows, and the gateway has to say just that: it proves the key, the
clocks, the gateway's id and the way to and fro, and opens nothing. The gateway's
journal shows it as refused. The broker has to let whoever sends it publish to
gateways/ID/command and subscribe to gateways/ID/result, which the gateway itself
should have no right to: give the application's login with --username and
--password-file.

Run it as root or as the user of the service, who may read the files.`

// cloudTrial holds the flags of cloud test.
type cloudTrial struct {
	key          string
	gateway      string
	clientID     string
	username     string
	passwordFile string
}

func (a *app) cloudTestCommand() *cobra.Command {
	var flags cloudTrial
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Try the link to the cloud step by step",
		Long:  cloudTestLong,
		Example: `  gatehouse cloud test
  gatehouse cloud test --key cloud-front-desk.key
  gatehouse cloud test --key front-desk.key --username front-desk --password-file front-desk.password`,
		Args: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"username", "password-file"} {
				if cmd.Flags().Changed(name) && !cmd.Flags().Changed("key") {
					return fmt.Errorf("--%s is the login of who sends a command: it needs --key", name)
				}
			}
			if err := passwordOfWhom(flags.username, flags.passwordFile); err != nil {
				return err
			}
			return takes()(cmd, args)
		},
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.cloudTest(ctx, flags) }),
	}
	f := cmd.Flags()
	f.StringVar(&flags.key, "key", "", "send a command that is signed with the private key in `FILE`")
	f.StringVar(&flags.gateway, "gateway", "", "the gateway has this `ID` (default asked of the one that runs here)")
	f.StringVar(&flags.clientID, "client-id", "", "connect with the MQTT client `ID` (default the gateway's with -test after it)")
	f.StringVar(&flags.username, "username", "", "send the command as the user `NAME` of the broker")
	f.StringVar(&flags.passwordFile, "password-file", "", "with the password in the first line of `FILE`")
	return cmd
}

// trial is one run of cloud test.
type trial struct {
	*app
	flags   cloudTrial
	steps   []trialStep
	cfg     config.Config
	gateway site.GatewayID
	broker  mqttclient.Config

	resolved string        // the addresses of the broker
	peer     string        // the one that answered
	took     time.Duration // until it did
}

// trialStep is one step, as --json shows it.
type trialStep struct {
	Step   string `json:"step"`
	OK     bool   `json:"ok"`
	Says   string `json:"says"`
	Advice string `json:"advice,omitempty"`
}

// errStep is a step that failed, and what to do.
type errStep struct{ says, advice string }

func (e *errStep) Error() string { return e.says + "; " + lowerFirst(e.advice) }

// lowerFirst lets a sentence follow another; a word in capitals stays.
func lowerFirst(s string) string {
	if len(s) > 1 && s[0] >= 'A' && s[0] <= 'Z' && (s[1] < 'A' || s[1] > 'Z') {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

func (a *app) cloudTest(ctx context.Context, flags cloudTrial) error {
	t := &trial{app: a, flags: flags, steps: []trialStep{}, resolved: "none: the broker is named by its address"}
	err := t.run(ctx)
	if a.json {
		document := struct {
			OK    bool        `json:"ok"`
			Steps []trialStep `json:"steps"`
		}{err == nil, t.steps}
		err = errors.Join(a.document(document), err)
	}
	return err
}

// run takes the steps until one fails.
func (t *trial) run(ctx context.Context) error {
	if err := t.take(ctx, "configuration", t.configuration); err != nil {
		return err
	}
	if err := t.take(ctx, "files", t.files); err != nil {
		return err
	}
	if err := t.take(ctx, "gateway", t.identity); err != nil {
		return err
	}
	if err := t.connection(ctx); err != nil {
		return err
	}
	if t.flags.key == "" {
		return t.refusal(ctx)
	}
	if err := t.take(ctx, "key", t.trusted); err != nil {
		return err
	}
	return t.take(ctx, "command", t.command)
}

// take takes one step and tells of it.
func (t *trial) take(ctx context.Context, name string, step func(context.Context) (says string, err error)) error {
	says, err := step(ctx)
	return t.tell(name, says, err)
}

// tell shows how a step went, and gives the error of one that failed.
func (t *trial) tell(name, says string, err error) error {
	if err == nil {
		t.steps = append(t.steps, trialStep{Step: name, OK: true, Says: says})
		return t.line(name, "ok", says)
	}
	if _, usage := errors.AsType[errUsage](err); usage || errors.Is(err, context.Canceled) {
		return err
	}
	failed, ok := errors.AsType[*errStep](err)
	if !ok {
		failed = &errStep{says: describe(err)}
	}
	t.steps = append(t.steps, trialStep{Step: name, Says: failed.says, Advice: failed.advice})
	if err := t.line(name, "FAILED", failed.says); err != nil {
		return err
	}
	if failed.advice == "" {
		return errors.New(failed.says)
	}
	return failed
}

func (t *trial) line(name, verdict, says string) error {
	if t.json {
		return nil
	}
	w := &lines{w: t.stdout}
	w.printf("%-13s  %-6s  %s", name, verdict, printable(strings.ReplaceAll(says, "\n", "; ")))
	return w.err
}

func (t *trial) configuration(context.Context) (says string, err error) {
	if t.cfg, err = t.settings(); err != nil {
		return "", err
	}
	c := t.cfg.Cloud
	if c.URL == "" {
		return "", &errStep{"no cloud is configured", "Set url in [cloud] of the configuration, such as \"tls://mqtt.example.test:8883\", or GATEHOUSE_CLOUD_URL as the gateway has it"}
	}
	t.broker = mqttclient.Config{
		URL: c.URL, Username: c.Username, Password: c.Password, KeepAlive: c.Keepalive, Lookup: t.lookup, Open: t.open,
		PasswordFile: source(c.PasswordFile), CA: source(c.CA), Certificate: source(c.Certificate), Key: source(c.Key),
	}
	return "the broker is " + c.URL, nil
}

// source gives the file that is meant by a path of the configuration.
func source(path string) string {
	file, _ := machine.CredentialSource(path)
	return file
}

// files sees whether the files can be read. What stands in them is looked at when they
// are used.
func (t *trial) files(context.Context) (string, error) {
	var read []string
	for _, file := range []struct{ key, path string }{
		{"password_file", t.broker.PasswordFile}, {"ca", t.broker.CA}, {"certificate", t.broker.Certificate}, {"key", t.broker.Key},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.ReadFile(file.path); err != nil {
			advice := "Put it there, or change " + file.key + " in [cloud]"
			if errors.Is(err, os.ErrPermission) {
				advice = "Run this as root or as the user of the service; the gateway itself has to be able to read it too"
			}
			return "", &errStep{fmt.Sprintf("the file of %s cannot be read: %v", file.key, err), advice}
		}
		read = append(read, file.key)
	}
	if len(read) == 0 {
		return "none are needed", nil
	}
	return strings.Join(read, ", ") + " can be read", nil
}

func (t *trial) identity(ctx context.Context) (says string, err error) {
	if t.gateway, err = t.gatewayID(ctx, t.flags.gateway); err != nil {
		return "", err
	}
	t.broker.ClientID = cmp.Or(t.flags.clientID, cmp.Or(t.cfg.Cloud.ClientID, string(t.gateway))+"-test")
	return "its id is " + string(t.gateway) + ", and this test's client id is " + t.broker.ClientID, nil
}

// lookup finds the addresses of the broker as the gateway does, and keeps them.
func (t *trial) lookup(ctx context.Context, name string) ([]string, error) {
	found, err := net.DefaultResolver.LookupHost(ctx, name)
	t.resolved = name + " is " + strings.Join(found, ", ")
	return found, err
}

// refusal reports a running gateway that refuses every command for now. That is no
// failure of the link.
func (t *trial) refusal(ctx context.Context) error {
	return t.call(func(gw *client.Client) error {
		status, err := gw.Status(ctx)
		if err != nil || status.Cloud == nil || status.Cloud.Refuses == "" {
			return nil //nolint:nilerr // it does not run here
		}
		t.steps = append(t.steps, trialStep{Step: "commands", OK: true, Says: status.Cloud.Refuses, Advice: status.Cloud.RefusesAdvice})
		return t.line("commands", "NOTE", status.Cloud.Refuses+"; "+lowerFirst(status.Cloud.RefusesAdvice))
	})
}

// open connects as the gateway does, and keeps what it saw.
func (t *trial) open(ctx context.Context, network, address string) (net.Conn, error) {
	began := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t.peer, t.took = conn.RemoteAddr().String(), time.Since(began)
	return conn, nil
}

// connection connects as the gateway does, and tells of each step on the way.
func (t *trial) connection(ctx context.Context) error {
	cfg := t.broker
	cfg.Topics = []string{api.Topic(t.gateway, api.CommandLeaf), api.Topic(t.gateway, api.AckLeaf)}
	cfg.Receive = func(mqttclient.Message) {} // for the gateway itself
	conn, err := mqttclient.Dial(ctx, cfg)
	if err != nil {
		return t.dialled(nil, err)
	}
	defer conn.Close()
	if err := t.dialled(conn, nil); err != nil {
		return err
	}
	return t.take(ctx, "publish", func(ctx context.Context) (string, error) { return t.publish(ctx, conn) })
}

// dialled tells how each step of a connection went.
func (t *trial) dialled(conn *mqttclient.Conn, failure error) error {
	failed, _ := errors.AsType[*mqttclient.DialError](failure)
	for _, step := range []struct {
		step mqttclient.Step
		name string
		says func() string
	}{
		{mqttclient.StepConfiguration, "settings", func() string { return "they and the files fit together" }},
		{mqttclient.StepResolve, "name", func() string { return t.resolved }},
		{mqttclient.StepConnect, "tcp", func() string { return fmt.Sprintf("%s answers in %s", t.peer, t.took.Round(time.Millisecond/10)) }},
		{mqttclient.StepTLS, "tls", func() string { return t.certificate(conn) }},
		{mqttclient.StepLogin, "login", t.login},
		{mqttclient.StepSubscribe, "subscribe", func() string { return "to " + t.topics("command", "ack") }},
	} {
		var err error
		if failed != nil && failed.Step == step.step {
			err = &errStep{failed.Err.Error(), failed.Advice}
			if failed.Advice == "" {
				err = failed.Err
			}
		}
		if err := t.tell(step.name, step.says(), err); err != nil {
			return err
		}
	}
	return failure
}

func (t *trial) topics(leaves ...string) string {
	return "gateways/" + string(t.gateway) + "/" + strings.Join(leaves, " and …/")
}

func (t *trial) login() string {
	user := "without a user name"
	if t.broker.Username != "" {
		user = "as " + t.broker.Username
	}
	if t.broker.Certificate != "" {
		user += ", with the client certificate"
	}
	return user + ", with the client id " + t.broker.ClientID
}

// certificate says how long the broker's certificate is valid.
func (t *trial) certificate(conn *mqttclient.Conn) string {
	if endpoint, err := mqttclient.ParseURL(t.broker.URL); err == nil && !endpoint.TLS {
		return "none: everything can be read on the way; write tls:// in url where the broker offers it"
	}
	if conn == nil {
		return "the broker's certificate is accepted"
	}
	end := conn.Certificate().NotAfter
	left := end.Sub(t.now())
	text := fmt.Sprintf("the broker's certificate is accepted, and valid until %s", t.local(end))
	if days := int(left.Hours() / 24); days < 30 {
		return text + fmt.Sprintf(": have it renewed within %s", plural(max(days, 0), "day"))
	}
	return text
}

// testStation is one that no site has: what is published of it leaves nothing behind.
const testStation = site.MaxStationID

// publishPatience bounds the wait for the broker's acknowledgement.
const publishPatience = 15 * time.Second

// publish tries the right to publish with what no application has a use for: the
// removal of a station that there is not, and an answer to a command that nobody sent.
func (t *trial) publish(ctx context.Context, conn *mqttclient.Conn) (string, error) {
	answer := api.Result{ID: "gatehouse-cloud-test", Outcome: site.Refused, Time: site.At(t.now()), Reason: "test", Message: "gatehouse cloud test tries the right to publish"}
	for _, m := range []mqttclient.Message{
		{Topic: api.StateTopic(t.gateway, testStation), QoS: 1, Retained: true},
		{Topic: api.Topic(t.gateway, api.ResultLeaf), QoS: 1, Payload: api.Encode(answer)},
	} {
		if err := t.deliver(ctx, conn, m); err != nil {
			return "", err
		}
	}
	return "to " + t.topics("stations/+/state", "result") + "; the broker acknowledges (some acknowledge what they drop: see its log)", nil
}

// deliver publishes and waits for the acknowledgement.
func (t *trial) deliver(ctx context.Context, conn *mqttclient.Conn, m mqttclient.Message) error {
	delivery := conn.Publish(m)
	timer := time.NewTimer(publishPatience)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return &errStep{"the broker does not acknowledge a message to " + m.Topic, "Look at the broker's log: it may be overloaded, or give this user no right to publish there"}
	case <-delivery.Done():
	}
	if err := delivery.Err(); err != nil {
		return &errStep{fmt.Sprintf("the broker does not take a message to %s: %v", m.Topic, err), "Give this user the right to publish there: some brokers hang up on who has none"}
	}
	return nil
}

// trusted sees whether the configuration trusts the key.
func (t *trial) trusted(context.Context) (string, error) {
	key, err := t.signingKey(t.flags.key)
	if err != nil {
		return "", err
	}
	ring, err := api.NewKeyring(t.cfg.Cloud.Keys)
	if err != nil {
		return "", fmt.Errorf("reading keys in [cloud]: %w", err)
	}
	public := key.Public()
	switch {
	case ring.Trusts(public):
		return "the configuration trusts " + public.ID, nil
	case ring.Has(public.ID):
		return "", &errStep{"the configuration trusts another key under the id " + public.ID, fmt.Sprintf("Put %q in its place, or sign with the other one", public)}
	}
	return "", &errStep{"the configuration does not trust the key " + public.ID, fmt.Sprintf("Add %q to keys in [cloud], and run \"systemctl reload gatehouse\"", public)}
}
