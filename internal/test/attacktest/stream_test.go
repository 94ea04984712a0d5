package attacktest_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"sync"
	"testing"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// A revoked, removed or demoted administrator went on following the journal and all
// stations over HTTPS, until the gateway stopped.
func TestAttack_streamAfterRevocation(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0"}})
	p.AddAccount()
	issued := p.Enrol(1042)
	endsStreams(t, p, "revoked", issued, func(ctx context.Context) error {
		_, err := p.Admin.Revoke(ctx, gatewaytest.Email)
		return err
	})
	endsStreams(t, p, "demoted", issued, func(ctx context.Context) error {
		_, err := p.Admin.SetAdmin(ctx, gatewaytest.Email, false)
		return err
	})
	endsStreams(t, p, "removed", issued, func(ctx context.Context) error {
		return p.Admin.RemoveAccount(ctx, gatewaytest.Email)
	})
}

// endsStreams opens every stream that an administrator can have, and requires that each
// ends after end.
func endsStreams(t *testing.T, p *gatewaytest.Program, name string, issued adminapi.IssuedStation, end func(context.Context) error) {
	t.Helper()
	if _, err := p.Admin.SetAdmin(t.Context(), gatewaytest.Email, true); err != nil {
		t.Fatal(err)
	}
	access, _ := p.Login()
	paths := []string{"/admin/v1/journal?follow=true", "/admin/v1/stations/watch"}
	if name != "demoted" { // which ends no right to the station
		paths = append(paths, "/local/v1/stations/"+issued.StationToken+"/events")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var streams sync.WaitGroup
	for _, path := range paths {
		body := openStream(ctx, t, p.HTTPS+path, access)
		streams.Go(func() {
			defer func() { _ = body.Close() }()
			_, _ = io.Copy(io.Discard, body)
		})
	}
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { streams.Wait(); close(ended) }()
	await.Receive(t, "the streams of an administrator who was "+name+" have ended", ended)
}

// openStream returns the body of a stream that has begun.
func openStream(ctx context.Context, t *testing.T, url, access string) io.ReadCloser {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the gateway's own certificate, on loopback
	}}
	t.Cleanup(client.CloseIdleConnections)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+access)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d", url, resp.StatusCode)
	}
	return resp.Body
}
