package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

const (
	// testCommand is one that no gateway knows.
	testCommand = "test"
	// answerPatience bounds the wait for the gateway's answer.
	answerPatience = 10 * time.Second
)

// command sends a command that opens nothing, as an application would, and waits for
// the gateway to say that it does not know it.
func (t *trial) command(ctx context.Context) (string, error) {
	id := uuid.NewString()
	answers := make(chan api.Result, 1)
	conn, err := mqttclient.Dial(ctx, t.application(id, answers))
	if failed, ok := errors.AsType[*mqttclient.DialError](err); ok && failed.Advice != "" {
		return "", &errStep{"as the application: " + failed.Error(), failed.Advice + ", or give another login with --username"}
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	token, err := t.signTest(id)
	if err != nil {
		return "", err
	}
	began := time.Now()
	message := mqttclient.Message{Topic: api.Topic(t.gateway, api.CommandLeaf), QoS: 1, Payload: []byte(token)}
	if err := t.deliver(ctx, conn, message); err != nil {
		return "", err
	}
	timer := time.NewTimer(answerPatience)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-timer.C:
		return "", &errStep{fmt.Sprintf("no answer comes within %s", answerPatience), t.silence()}
	case result := <-answers:
		return judge(result, time.Since(began))
	}
}

// silence says what to do when no answer comes.
func (t *trial) silence() string {
	advice := "See with \"gatehouse cloud status\" that the gateway is connected, and that "
	if t.flags.username == "" {
		return advice + "who sends the command may: give the application's login with --username and --password-file"
	}
	return advice + "the broker lets " + t.flags.username + " publish to " + t.topics("command") + " and subscribe to " + t.topics("result") + ": some brokers say nothing of what they drop"
}

// application is who sends commands: the login of the flags, or the gateway's.
func (t *trial) application(id string, answers chan<- api.Result) mqttclient.Config {
	cfg := t.broker
	cfg.ClientID += "-application"
	if t.flags.username != "" {
		cfg.Username, cfg.Password, cfg.PasswordFile = t.flags.username, "", t.flags.passwordFile
	}
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

func (t *trial) signTest(id string) (string, error) {
	key, err := t.signingKey(t.flags.key)
	if err != nil {
		return "", err
	}
	now := t.now()
	return key.Sign(api.Command{
		ID: id, Gateway: t.gateway, Name: testCommand, Station: testStation, Lock: 1, Actor: userName(),
		IssuedAt: now, Expires: now.Add(answerPatience),
	})
}

// judge says what the gateway's answer means.
func judge(result api.Result, took time.Duration) (string, error) {
	reason := api.Reason(result.Reason)
	if result.Outcome == site.Refused && reason == api.UnknownCommand {
		return fmt.Sprintf("the gateway has checked it and answered in %s", took.Round(time.Millisecond)), nil
	}
	var advice string
	switch reason {
	case api.UnknownKey, api.BadSignature:
		advice = "The running gateway goes by other keys than the configuration: run \"systemctl reload gatehouse\""
	case api.Expired, api.NotYetValid:
		advice = "Set the clocks: that of this machine and that of the gateway differ"
	case api.Clock:
		return "", &errStep{
			"the gateway refuses every command: its clock is not trusted",
			"Give the gateway's machine a time server that it can reach; where there is none, compare its date with a watch and run: gatehouse clock accept",
		}
	case api.WrongAudience:
		advice = "Another gateway listens on this one's topic: let each connect with its own login, with rights to its own topics"
	default:
		advice = "See the gateway's log"
	}
	return "", &errStep{fmt.Sprintf("the gateway refuses it as %s: %s", result.Reason, result.Message), advice}
}
