package mqttclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/test/brokertest"
)

// file writes a file with that text and returns its path.
func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What the broker is told in CONNECT.
func TestDial_connect(t *testing.T) {
	got := make(chan []byte, 1)
	b := listen(t, func(p *peer) {
		body, _ := p.welcome(0)
		got <- body
		p.silent()
	})
	cfg := config(b.url())
	cfg.Username, cfg.Password, cfg.PasswordFile = "joe", "hunter2", "not looked at"
	cfg.Will = &mqttclient.Message{Topic: "w", Payload: []byte{0xFF, 0}, QoS: 1, Retained: true}
	c := dial(t, cfg)
	// Version 4, all flags but the reserved one and that of QoS 2, a keepalive of 10 min.
	want := slices.Concat(text("MQTT"), []byte{4, 0xEE, 2, 88}, text("gateway-1"), text("w"), []byte{0, 2, 0xFF, 0}, text("joe"), text("hunter2"))
	if body := <-got; !bytes.Equal(body, want) {
		t.Errorf("CONNECT is\n%x, want\n%x", body, want)
	}
	c.Close()

	cfg = config(b.url())
	dial(t, cfg)
	want = slices.Concat(text("MQTT"), []byte{4, 2, 2, 88}, text("gateway-1"))
	if body := <-got; !bytes.Equal(body, want) {
		t.Errorf("CONNECT without anything is\n%x, want\n%x", body, want)
	}
}

// Where several files are not found, each attempt fails as the one before did, which is
// logged once.
func TestDial_severalNotFound(t *testing.T) {
	cfg := config("tls://127.0.0.1:1")
	cfg.PasswordFile, cfg.CA, cfg.Certificate, cfg.Key = "credential:a", "credential:b", "credential:c", "credential:d"
	cfg.Find = func(path string) (string, error) { return "", errors.New("no " + path) }
	for range 50 {
		contains(t, "the error", refusedAt(t, cfg, mqttclient.StepConfiguration).Error(), "reading password_file: no credential:a")
	}
}

// A password that was changed is taken up.
func TestDial_passwordFile(t *testing.T) {
	got := make(chan []byte, 1)
	b := listen(t, func(p *peer) {
		body, _ := p.welcome(0)
		got <- body
		p.silent()
	})
	cfg := config(b.url())
	cfg.Username, cfg.PasswordFile = "joe", file(t, "first\r\n")
	for _, want := range []string{"first", " sec ond"} {
		c := dial(t, cfg)
		if body := <-got; !bytes.HasSuffix(body, text(want)) {
			t.Errorf("CONNECT is %q, want the password %q", body, want)
		}
		c.Close()
		if err := os.WriteFile(cfg.PasswordFile, []byte(" sec ond\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDial_configuration(t *testing.T) {
	const secret = "hunter2"
	secretFile := file(t, secret)
	for name, test := range map[string]struct {
		change func(cfg *mqttclient.Config)
		want   string
	}{
		"URL":                  {func(cfg *mqttclient.Config) { cfg.URL = "tls://joe:" + secret + "@broker.example" }, "set username and password_file"},
		"no password file":     {func(cfg *mqttclient.Config) { cfg.Username, cfg.PasswordFile = "joe", "/none" }, "reading password_file: open /none"},
		"empty password file":  {func(cfg *mqttclient.Config) { cfg.Username, cfg.PasswordFile = "joe", file(t, "\n") }, "one line"},
		"password file, lines": {func(cfg *mqttclient.Config) { cfg.Username, cfg.PasswordFile = "joe", file(t, secret+"\n"+secret) }, "one line"},
		"no CA":                {func(cfg *mqttclient.Config) { cfg.URL, cfg.CA = "tls://b", "/none" }, "reading ca: open /none"},
		"CA without any":       {func(cfg *mqttclient.Config) { cfg.URL, cfg.CA = "tls://b", secretFile }, "no certificate"},
		"certificate":          {func(cfg *mqttclient.Config) { cfg.URL, cfg.Certificate, cfg.Key = "tls://b", secretFile, secretFile }, "reading certificate " + secretFile},
		"no key":               {func(cfg *mqttclient.Config) { cfg.URL, cfg.Certificate, cfg.Key = "tls://b", secretFile, "/none" }, "open /none"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config("tcp://broker.example")
			cfg.Open = func(context.Context, string, string) (net.Conn, error) {
				t.Error("a wrong configuration was used")
				return nil, errors.New("no")
			}
			test.change(&cfg)
			failed := refusedAt(t, cfg, mqttclient.StepConfiguration)
			contains(t, "the error", failed.Error(), test.want)
			contains(t, "the advice", failed.Advice, "Correct")
			if strings.Contains(failed.Error()+failed.Advice, secret) {
				t.Errorf("a secret stands in %v", failed)
			}
		})
	}
	cfg := config("tcp://broker.example")
	cfg.Username, cfg.PasswordFile = "joe", "/none"
	if failed := refusedAt(t, cfg, mqttclient.StepConfiguration); !errors.Is(failed, fs.ErrNotExist) {
		t.Errorf("the cause is lost: %v", failed)
	}
}

// failing is an Open that fails.
func failing(err error) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
}

func TestDial_connectFails(t *testing.T) {
	for _, test := range []struct {
		err    error
		step   mqttclient.Step
		advice string
	}{
		{&net.DNSError{Err: "no such host", Name: "broker.example", IsNotFound: true}, mqttclient.StepResolve, "getent hosts broker.example"},
		{&net.DNSError{Err: "i/o timeout", Name: "broker.example", IsTimeout: true}, mqttclient.StepResolve, "name server"},
		{os.NewSyscallError("connect", syscall.ENETUNREACH), mqttclient.StepConnect, "broker.example:1883"},
		{os.NewSyscallError("connect", syscall.ETIMEDOUT), mqttclient.StepConnect, "firewalls"},
		{os.ErrDeadlineExceeded, mqttclient.StepConnect, "firewalls"},
		{errors.New("something else"), mqttclient.StepConnect, "broker.example:1883"},
	} {
		cfg := config("tcp://broker.example")
		cfg.Open = failing(test.err)
		if test.step == mqttclient.StepResolve {
			cfg.Lookup = func(context.Context, string) ([]string, error) {
				_, err := failing(test.err)(t.Context(), "", "")
				return nil, err
			}
		}
		failed := refusedAt(t, cfg, test.step)
		contains(t, "the advice", failed.Advice, test.advice)
		contains(t, "the error", failed.Error(), string(test.step)+": dial tcp: "+test.err.Error())
		if !errors.Is(failed, test.err) {
			t.Errorf("the cause is lost: %v", failed)
		}
	}
}

// The system's dialer: nobody listens.
func TestDial_refused(t *testing.T) {
	free, err := brokertest.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	failed := refusedAt(t, config("tcp://"+free[0]), mqttclient.StepConnect)
	contains(t, "the advice", failed.Advice, free[0])
}

func TestDial_loginFails(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer []byte
		error  string
	}{
		{"code 1", connack(1), "unacceptable protocol version (code 1)"},
		{"code 2", connack(2), "identifier rejected (code 2)"},
		{"code 3", connack(3), "server Unavailable (code 3)"},
		{"code 4", connack(4), "bad user name or password (code 4)"},
		{"code 5", connack(5), "not Authorized (code 5)"},
		{"closes", nil, "closed the connection"},
		{"speaks TLS", []byte{21, 3, 3, 0, 2, 2, 10}, "not an MQTT broker"},
		{"speaks SSH", []byte("SSH-2.0-OpenSSH_9.2\r\n"), "not an MQTT broker"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := listen(t, func(p *peer) {
				_, _ = p.await(connect)
				p.say(test.answer)
			})
			cfg := config(b.url())
			cfg.Username, cfg.Password = "joe", "hunter2"
			failed := refusedAt(t, cfg, mqttclient.StepLogin)
			contains(t, "the error", failed.Error(), test.error)
			contains(t, "the advice", failed.Advice, "client id gateway-1;")
			if s := fmt.Sprintf("%v %+v %#v", failed, failed, failed); strings.Contains(s, "hunter2") {
				t.Errorf("the password stands in %s", s)
			}
		})
	}
}

func TestDial_subscribeHangsUp(t *testing.T) {
	b := listen(t, func(p *peer) {
		_, _ = p.await(connect)
		p.say(connack(0))
		_, _ = p.await(subscribe)
	})
	cfg := config(b.url())
	cfg.Topics = []string{"a"}
	failed := refusedAt(t, cfg, mqttclient.StepSubscribe)
	contains(t, "the error", failed.Error(), "closed the connection")
	contains(t, "the advice", failed.Advice, "no right to")
}

// What never answers: a host, a TLS handshake, a login, a subscription. Dial ends in
// time, and when its context is cancelled at once and without advice.
func TestDial_noAnswer(t *testing.T) {
	never := func(cfg *mqttclient.Config) {
		cfg.Open = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	nothing := func(*mqttclient.Config) {}
	for _, test := range []struct {
		step   mqttclient.Step
		change func(cfg *mqttclient.Config)
		play   func(p *peer)
		advice string
	}{
		{mqttclient.StepConnect, never, (*peer).silent, "firewalls"},
		{mqttclient.StepTLS, func(cfg *mqttclient.Config) { cfg.URL = "tls://broker.example" }, (*peer).silent, "TLS listener"},
		{mqttclient.StepLogin, nothing, (*peer).silent, "MQTT listener"},
		{mqttclient.StepSubscribe, func(cfg *mqttclient.Config) { cfg.Topics = []string{"a"} }, func(p *peer) { _, _ = p.welcome(0); p.silent() }, "right to"},
	} {
		t.Run(string(test.step), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := piped(t, test.play)
				test.change(&cfg)
				began := time.Now()
				failed := refusedAt(t, cfg, test.step)
				contains(t, "the advice", failed.Advice, test.advice)
				contains(t, "the error", failed.Error(), "no answer in time")
				if took := time.Since(began); took != 30*time.Second {
					t.Errorf("it took %s", took)
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				_, err := mqttclient.Dial(ctx, cfg)
				if failed, ok := errors.AsType[*mqttclient.DialError](err); !ok || failed.Advice != "" || !errors.Is(err, context.Canceled) || failed.Step != test.step {
					t.Errorf("when cancelled, the error is %#v", err)
				}
				if took := time.Since(began); took != 31*time.Second {
					t.Errorf("when cancelled, it took %s", took-30*time.Second)
				}
			})
		})
	}
}
