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

	"gatehouse/internal/board/machine"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/config"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

const cloudTestLong = `Try everything that the cloud link needs, step by step: the configuration and its
files, the name of the broker, TCP, TLS, the login, and the rights to subscribe and to
publish. The first step that fails says what to do, and the exit status is 1.

With --key, a signed command that no gateway knows is sent to the gateway, which has to
answer just that: it proves the key, the clocks, the gateway's id and both directions,
and opens nothing. The gateway itself should have no right to send commands: set the
application's login with --username and --password-file.

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
	cmd := a.command(&cobra.Command{
		Use:   "test",
		Short: "Try the link to the cloud step by step",
		Long:  cloudTestLong,
		Example: `  gatehouse cloud test
  gatehouse cloud test --key cloud-front-desk.key
  gatehouse cloud test --key front-desk.key --username front-desk --password-file front-desk.password`,
	}, func(ctx context.Context, _ []string) error { return a.cloudTest(ctx, flags) })
	f := cmd.Flags()
	f.StringVar(&flags.key, "key", "", "send a command that is signed with the private key in `FILE`")
	f.StringVar(&flags.gateway, "gateway", "", "the gateway has this `ID` (default that of the one that runs here)")
	f.StringVar(&flags.clientID, "client-id", "", "connect with the MQTT client `ID` (default the gateway's with -test after it)")
	flags.add(cmd)
	return cmd
}

// brokerLogin holds the flags for the login of an application at the broker.
type brokerLogin struct{ username, passwordFile string }

func (l *brokerLogin) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.username, "username", "", "as the application, log in as the user `NAME` of the broker")
	cmd.Flags().StringVar(&l.passwordFile, "password-file", "", "with the password in the first line of `FILE`")
	cmd.MarkFlagsRequiredTogether("username", "password-file")
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
	cfg, err := a.cloudSettings()
	if err != nil {
		return err
	}
	t := &trial{app: a, broker: cloudBroker(cfg)}
	if t.gateway, err = a.gatewayID(ctx, flags.gateway); err != nil {
		return err
	}
	t.broker.ClientID = cmp.Or(flags.clientID, cmp.Or(cfg.ClientID, string(t.gateway))+"-test")
	if err = t.rights(ctx); err == nil && flags.key != "" {
		err = t.ended(stepCommand, t.command(ctx, flags))
	}
	if a.json {
		document := struct {
			OK    bool        `json:"ok"`
			Steps []trialStep `json:"steps"`
		}{err == nil, list(t.steps)}
		return errors.Join(a.document(document), advised(err))
	}
	if err == nil && flags.key == "" {
		a.noteClock(ctx)
	}
	return advised(err)
}

// cloudSettings reads [cloud] of the configuration.
func (a *app) cloudSettings() (config.Cloud, error) {
	cfg, err := a.settings()
	if err == nil && cfg.Cloud.URL == "" {
		err = errors.New("no cloud is configured: set url in [cloud] of the configuration, such as \"tls://mqtt.example.test:8883\", or GATEHOUSE_CLOUD_URL as the gateway has it")
	}
	return cfg.Cloud, err
}

// cloudBroker returns the broker of the configuration, with the login of the gateway.
func cloudBroker(c config.Cloud) mqttclient.Config {
	return mqttclient.Config{Broker: c.Broker, Find: func(path string) (string, error) {
		file, _ := machine.CredentialSource(path)
		return file, nil
	}}
}

// rights connects as the gateway does and publishes, until a step fails.
func (t *trial) rights(ctx context.Context) error {
	cfg := t.broker
	cfg.Topics = []string{api.Topic(t.gateway, api.CommandLeaf), api.Topic(t.gateway, api.AckLeaf)}
	cfg.Receive = func(mqttclient.Message) {} // for the gateway itself
	conn, err := mqttclient.Dial(ctx, cfg)
	failed, _ := errors.AsType[*mqttclient.DialError](err)
	endpoint, _ := mqttclient.ParseURL(cfg.URL) // Dial reports what is wrong with it
	for _, step := range mqttclient.Steps() {
		if failed != nil && failed.Step == step {
			return t.ended(step, failed)
		}
		if step != mqttclient.StepTLS || endpoint.TLS {
			_ = t.ended(step, nil)
		}
	}
	defer conn.Close()
	// A message that no application has a use for: the removal of an unknown station.
	removal := mqttclient.Message{Topic: api.StateTopic(t.gateway, testStation), Retained: true}
	return t.ended(stepPublish, deliver(ctx, conn, removal))
}

// noteClock prints a note if the running gateway refuses every command for now, because its
// clock is not trusted. That is no failure of the link.
func (a *app) noteClock(ctx context.Context) {
	status, _ := a.status(ctx)
	for _, finding := range status.Conditions {
		if finding.Code == health.CloudClock {
			a.complain("note: " + finding.Summary + "; " + lowerFirst(finding.Advice))
		}
	}
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
		w := t.text()
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
	// answerPatience bounds the wait for the broker's acknowledgement and for the gateway's answer.
	answerPatience = 10 * time.Second
)

// deliver publishes and waits for the acknowledgement.
func deliver(ctx context.Context, conn *mqttclient.Conn, m mqttclient.Message) error {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	if err := conn.Deliver(ctx, m); err != nil {
		return &mqttclient.DialError{Step: stepPublish, Err: fmt.Errorf("publishing to %s: %w", m.Topic, err), Advice: "Give this user the right to publish there: some brokers close the connection of one that has none. See the broker's log"}
	}
	return nil
}

// command sends a command that opens nothing, as an application would, and waits for
// the gateway to answer that it does not know it.
func (t *trial) command(ctx context.Context, flags cloudTrial) error {
	key, err := t.signingKey(flags.key)
	if err != nil {
		return err
	}
	now := t.now()
	cmd := api.Command{
		ID: uuid.NewString(), Gateway: t.gateway, Name: testCommand, Station: testStation, Lock: 1, Actor: whoami(),
		IssuedAt: now, Expires: now.Add(answerPatience),
	}
	token, err := key.Sign(cmd)
	if err != nil {
		return err
	}
	sender, answers := t.broker, make(chan api.Result, 1)
	sender.ClientID += "-application"
	flags.apply(&sender)
	sender.Topics = []string{api.Topic(t.gateway, api.ResultLeaf)}
	sender.Receive = func(m mqttclient.Message) {
		var result api.Result
		if json.Unmarshal(m.Payload, &result) != nil {
			return
		}
		untrusted := result.Reason == string(api.UnknownKey) || result.Reason == string(api.BadSignature)
		if result.ID == cmd.ID || result.ID == "" && untrusted { // such an answer bears no id
			select {
			case answers <- result:
			default:
			}
		}
	}
	conn, err := mqttclient.Dial(ctx, sender)
	if err != nil {
		return errors.New("as the application: " + advised(err).Error() + ", or set another login with --username")
	}
	defer conn.Close()
	if err := deliver(ctx, conn, mqttclient.Message{Topic: api.Topic(t.gateway, api.CommandLeaf), Payload: []byte(token)}); err != nil {
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
		if result.Reason == string(api.UnknownCommand) {
			return nil // as it has to be
		}
		return &mqttclient.DialError{
			Step: stepCommand, Err: fmt.Errorf("the gateway refuses it as %s: %s", result.Reason, result.Message),
			Advice: "Compare keys in [cloud] with the line that \"gatehouse cloud keygen\" printed, and the clocks of both machines",
		}
	}
}
