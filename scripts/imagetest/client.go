package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// client is an app on the local network.
type client struct {
	base   string
	http   *http.Client
	bearer string
}

// connect waits until the gateway serves its certificate authority on port 80
// and is ready on HTTPS, where its certificate must be that of name.
func (m *machine) connect(ctx context.Context, name string) (*client, error) {
	c := &client{base: "https://" + m.https}
	plain := &http.Client{Timeout: attempt}
	err := await(ctx, "the gateway is ready", func() error {
		if err := m.checkRunning(); err != nil {
			return err
		}
		if c.http == nil {
			pem, _, err := get(ctx, plain, "http://"+m.http+"/ca.crt", "")
			if err != nil {
				plain.Timeout = min(2*plain.Timeout, 12*attempt) // for a machine that is slower still
				return err
			}
			if c.http, err = trusting(pem, name); err != nil {
				return err
			}
		}
		_, _, err := get(ctx, c.http, c.base+"/readyz", "")
		return err
	})
	if err != nil {
		err = fmt.Errorf("%w (the console is in %s)", err, m.log)
	}
	return c, err
}

// trusting returns an HTTP client that trusts the gateway's own authority, for the
// gateway of that name alone.
func trusting(pem []byte, name string) (*http.Client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the answer of /ca.crt is no certificate: %.60q", pem)
	}
	return &http.Client{Timeout: 12 * attempt, Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 64,
	}}, nil
}

func get(ctx context.Context, c *http.Client, url, bearer string) ([]byte, http.Header, error) {
	return request(ctx, c, http.MethodGet, url, bearer, "")
}

func request(ctx context.Context, c *http.Client, method, url, bearer, body string) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = refusal{fmt.Errorf("%s: %s", resp.Status, answer)}
	}
	return answer, resp.Header, err
}

// refusal is an answer that is no success.
type refusal struct{ error }

// login logs in. A refusal is an error at once. Without an answer it tries again.
func (c *client) login(ctx context.Context, email, password string) error {
	body, err := json.Marshal(map[string]string{"email": email, "password": password})
	if err != nil {
		return err
	}
	var answer []byte
	err = await(ctx, "the login is answered", func() (err error) {
		answer, _, err = request(ctx, c.http, http.MethodPost, c.base+"/v1/auth/login", "", string(body))
		if errors.As(err, new(refusal)) {
			return final{err}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	var tokens struct{ AccessToken string }
	if err := json.Unmarshal(answer, &tokens); err != nil || tokens.AccessToken == "" {
		return errors.Join(errors.New("the login gave no token"), err)
	}
	c.bearer = tokens.AccessToken
	return nil
}

// unlock returns the id of the command, and whether the answer was success:true.
func (c *client) unlock(ctx context.Context, token string, lock int) (id string, success bool, err error) {
	url := fmt.Sprintf("%s/v1/stations/%s/locks/%d/unlock", c.base, token, lock)
	answer, header, err := request(ctx, c.http, http.MethodPost, url, c.bearer, "")
	if err != nil {
		return "", false, err
	}
	var result struct{ Success bool }
	if err := json.Unmarshal(answer, &result); err != nil {
		return "", false, err
	}
	return header.Get("Gatehouse-Command"), result.Success, nil
}
