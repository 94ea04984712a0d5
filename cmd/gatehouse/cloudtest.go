package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/config"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
)

const cloudTestLong = `Try everything that the cloud link needs, step by step: the configuration and its
files, the name of the broker, TCP, TLS, the login, and the rights to subscribe and to
publish. Each step is one line; the first that fails says what to do, and the exit
status is 1. The gateway's own connection stays as it is.

With --key, a command is signed as an application would and sent to the gateway. It is
one that no gateway knows, and the gateway has to answer just that: it proves the key,
the clocks, the gateway's id and both directions, and opens nothing. The gateway's
journal shows it as refused. The broker has to let the sender publish to
gateways/ID/command and subscribe to gateways/ID/result, which the gateway itself
should have no right to: set the application's login with --username and
--password-file.

Run it as root or as the user of the service, who may read the files.`

// cloudTrial holds the flags of cloud test.
type cloudTrial struct {
	brokerLogin
	key      string
	gateway  string
	clientID string
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
			if flags.username != "" && flags.key == "" {
				return errors.New("--username is the login of the sender of a command: it needs --key")
			}
			if err := flags.check(); err != nil {
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
	flags.add(f)
	return cmd
}

// brokerLogin holds the flags for the login of an application at the broker.
type brokerLogin struct{ username, passwordFile string }

func (l *brokerLogin) add(f *pflag.FlagSet) {
	f.StringVar(&l.username, "username", "", "as the application, log in as the user `NAME` of the broker")
	f.StringVar(&l.passwordFile, "password-file", "", "with the password in the first line of `FILE`")
}

// check refuses a password without the user that it belongs to.
func (l *brokerLogin) check() error {
	if l.passwordFile != "" && l.username == "" {
		return errors.New("--password-file is the password of a user: it needs --username")
	}
	return nil
}

// apply replaces the login, if another is given.
func (l *brokerLogin) apply(broker *mqttclient.Config) {
	if l.username != "" {
		broker.Username, broker.Password, broker.PasswordFile = l.username, "", l.passwordFile
	}
}

// trial is one run of cloud test.
type trial struct {
	*app
	flags   cloudTrial
	gateway site.GatewayID
	broker  mqttclient.Config
	steps   []trialStep
}

// trialStep is one step, as --json shows it.
type trialStep struct {
	Step   mqttclient.Step `json:"step"`
	OK     bool            `json:"ok"`
	Says   string          `json:"says,omitempty"` // why it failed
	Advice string          `json:"advice,omitempty"`
}

// The steps that follow those of [mqttclient.Dial].
const (
	stepPublish mqttclient.Step = "publish"
	stepCommand mqttclient.Step = "command"
)

// advised returns a failed step with its advice, on one line.
func advised(err error) error {
	if failed, ok := errors.AsType[*mqttclient.DialError](err); ok && failed.Advice != "" {
		return fmt.Errorf("%w; %s", err, lowerFirst(failed.Advice))
	}
	return err
}

func (a *app) cloudTest(ctx context.Context, flags cloudTrial) error {
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	if cfg.Cloud.URL == "" {
		return errors.New("no cloud is configured: set url in [cloud] of the configuration, such as \"tls://mqtt.example.test:8883\", or GATEHOUSE_CLOUD_URL as the gateway has it")
	}
	t := &trial{app: a, flags: flags, broker: cloudBroker(cfg.Cloud)}
	if t.gateway, err = a.gatewayID(ctx, flags.gateway); err != nil {
		return err
	}
	t.broker.ClientID = cmp.Or(flags.clientID, cmp.Or(cfg.Cloud.ClientID, string(t.gateway))+"-test")
	err = advised(t.run(ctx))
	if a.json {
		document := struct {
			OK    bool        `json:"ok"`
			Steps []trialStep `json:"steps"`
		}{err == nil, list(t.steps)}
		err = errors.Join(a.document(document), err)
	}
	return err
}

// cloudBroker returns the broker of the configuration, with the login of the gateway.
func cloudBroker(c config.Cloud) mqttclient.Config {
	return mqttclient.Config{
		URL: c.URL, Username: c.Username, Password: c.Password, KeepAlive: c.Keepalive,
		PasswordFile: source(c.PasswordFile), CA: source(c.CA), Certificate: source(c.Certificate), Key: source(c.Key),
	}
}

// source returns the file that a path of the configuration means.
func source(path string) string {
	file, _ := machine.CredentialSource(path)
	return file
}

// run takes the steps until one fails.
func (t *trial) run(ctx context.Context) error {
	cfg := t.broker
	cfg.Topics = []string{api.Topic(t.gateway, api.CommandLeaf), api.Topic(t.gateway, api.AckLeaf)}
	cfg.Receive = func(mqttclient.Message) {}   // for the gateway itself
	endpoint, _ := mqttclient.ParseURL(cfg.URL) // Dial reports what is wrong with it
	conn, err := mqttclient.Dial(ctx, cfg)
	failed, _ := errors.AsType[*mqttclient.DialError](err)
	for _, step := range mqttclient.Steps() {
		switch {
		case step == mqttclient.StepTLS && !endpoint.TLS:
		case failed != nil && failed.Step == step:
			return t.ended(step, failed)
		default:
			if err := t.ended(step, nil); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	// A message that no application has a use for: the removal of an unknown station.
	removal := mqttclient.Message{Topic: api.StateTopic(t.gateway, testStation), QoS: 1, Retained: true}
	if err := t.ended(stepPublish, t.deliver(ctx, conn, removal)); err != nil {
		return err
	}
	if t.flags.key == "" {
		return t.refusing(ctx)
	}
	return t.ended(stepCommand, t.command(ctx))
}

// refusing shows that the running gateway refuses every command for now. That is no
// failure of the link.
func (t *trial) refusing(ctx context.Context) error {
	return t.call(func(gw *client.Client) error {
		status, err := gw.Status(ctx)
		if err != nil {
			return nil //nolint:nilerr // it does not run here
		}
		for _, finding := range status.Conditions {
			if finding.Code == health.CloudClock {
				t.complain("note: " + finding.Summary + "; " + lowerFirst(finding.Advice))
			}
		}
		return nil
	})
}

// ended shows how a step ended, and returns the error of one that failed.
func (t *trial) ended(name mqttclient.Step, err error) error {
	step, verdict := trialStep{Step: name, OK: err == nil}, "ok"
	if err != nil {
		verdict, step.Says = "FAILED", err.Error()
	}
	if failed, ok := errors.AsType[*mqttclient.DialError](err); ok {
		step.Says, step.Advice = failed.Err.Error(), failed.Advice
	}
	t.steps = append(t.steps, step)
	if !t.json {
		w := &lines{w: t.stdout}
		w.printf("%s", strings.TrimRight(fmt.Sprintf("%-13s  %-6s  %s", name, verdict, printable(step.Says)), " "))
		err = errors.Join(err, w.err)
	}
	return err
}

const (
	// testStation is a station that no site has.
	testStation = site.MaxStationID
	// testCommand is a command that no gateway knows.
	testCommand = "test"
	// publishPatience bounds the wait for the broker's acknowledgement, answerPatience
	// that for the gateway's answer.
	publishPatience = 15 * time.Second
	answerPatience  = 10 * time.Second
)

// deliver publishes and waits for the acknowledgement.
func (t *trial) deliver(ctx context.Context, conn *mqttclient.Conn, m mqttclient.Message) error {
	ctx, cancel := context.WithTimeout(ctx, publishPatience)
	defer cancel()
	delivery := conn.Publish(m)
	var err error
	select {
	case <-ctx.Done():
		err = errors.New("the broker does not acknowledge it")
	case <-delivery.Done():
		err = delivery.Err()
	}
	if err != nil {
		return &mqttclient.DialError{Step: stepPublish, Err: fmt.Errorf("publishing to %s: %w", m.Topic, err), Advice: "Give this user the right to publish there: some brokers close the connection of one that has none. See the broker's log"}
	}
	return nil
}

// command sends a command that opens nothing, as an application would, and waits for
// the gateway to answer that it does not know it.
func (t *trial) command(ctx context.Context) error {
	id := uuid.NewString()
	key, err := t.signingKey(t.flags.key)
	if err != nil {
		return err
	}
	answers := make(chan api.Result, 1)
	conn, err := mqttclient.Dial(ctx, t.sender(id, answers))
	if err != nil {
		return fmt.Errorf("as the application: %s, or set another login with --username", advised(err).Error())
	}
	defer conn.Close()
	now := t.now()
	token, err := key.Sign(api.Command{
		ID: id, Gateway: t.gateway, Name: testCommand, Station: testStation, Lock: 1, Actor: userName(),
		IssuedAt: now, Expires: now.Add(answerPatience),
	})
	if err != nil {
		return err
	}
	if err := t.deliver(ctx, conn, mqttclient.Message{Topic: api.Topic(t.gateway, api.CommandLeaf), QoS: 1, Payload: []byte(token)}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	select {
	case <-ctx.Done():
		return &mqttclient.DialError{
			Step: stepCommand, Err: fmt.Errorf("no answer comes within %s", answerPatience),
			Advice: "See with \"gatehouse cloud status\" that the gateway is connected, and that the broker lets the sender publish the command and subscribe to the result: --username and --password-file set its login",
		}
	case result := <-answers:
		return judge(result)
	}
}

// sender is the login that sends commands: that of the flags, or the gateway's.
func (t *trial) sender(id string, answers chan<- api.Result) mqttclient.Config {
	cfg := t.broker
	cfg.ClientID += "-application"
	t.flags.apply(&cfg)
	cfg.Topics = []string{api.Topic(t.gateway, api.ResultLeaf)}
	cfg.Receive = func(m mqttclient.Message) {
		var result api.Result
		if json.Unmarshal(m.Payload, &result) != nil || result.ID != id {
			return
		}
		select {
		case answers <- result:
		default:
		}
	}
	return cfg
}

// judge returns what the gateway's answer means; nil is the one that is expected.
func judge(result api.Result) error {
	advice := "See the gateway's log"
	switch api.Reason(result.Reason) {
	case api.UnknownCommand:
		return nil
	case api.UnknownKey, api.BadSignature:
		advice = "Add the line of the key that \"gatehouse cloud keygen\" printed to keys in [cloud], and run \"systemctl reload gatehouse\""
	case api.Expired, api.NotYetValid, api.Clock:
		advice = "Set the clocks of this machine and of the gateway; see \"gatehouse clock\" there"
	}
	return &mqttclient.DialError{Step: stepCommand, Err: fmt.Errorf("the gateway refuses it as %s: %s", result.Reason, result.Message), Advice: advice}
}
