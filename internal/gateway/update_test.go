package gateway_test

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/gateway"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// board is a gateway on a board with two slots, whose root is the test.
type board struct {
	*gatewaytest.Gateway
	root   slot.Exchange
	folder string // of uploads
}

func startBoard(t *testing.T, before func(*board)) *board {
	t.Helper()
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.TLSListen = []string{"127.0.0.1:0"}
	b := &board{root: slot.Exchange{Root: t.TempDir()}}
	b.folder = filepath.Join(b.root.Root, "var", "lib", "gatehouse", "update") // wherever the data are
	if before != nil {
		before(b)
	}
	if err := os.MkdirAll(filepath.Join(b.root.Root, "run", "gatehouse"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.says(t, site.UpdateStatus{Phase: site.UpdateIdle})
	b.Gateway = gatewaytest.RunAs(t, gateway.Config{Config: cfg, Exchange: b.root})
	b.AddAccount()
	if _, err := b.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: chief, Password: chiefSecret, Admin: true}); err != nil {
		t.Fatal(err)
	}
	return b
}

// says has root write a status.
func (b *board) says(t *testing.T, s site.UpdateStatus) {
	t.Helper()
	s.Image, s.Family, s.Default = true, "gatehouse-arm64", "a"
	s.Running, s.Other = site.SlotStatus{Slot: "a", Version: "1.2.3"}, site.SlotStatus{Slot: "b", Version: "1.2.2"}
	if err := b.root.WriteStatus(s); err != nil {
		t.Fatal(err)
	}
}

// taken returns the request that root finds; it fails the test where there is none.
func (b *board) taken(t *testing.T) slot.Request {
	t.Helper()
	r, found, err := b.root.TakeRequest()
	if err != nil || !found {
		t.Fatalf("root finds %t, %v", found, err)
	}
	return r
}

// untouched fails the test if root was asked or something is left of an upload.
func (b *board) untouched(t *testing.T, after string) {
	t.Helper()
	if r, found, err := b.root.TakeRequest(); found || err != nil {
		t.Errorf("%s: root is asked for %+v, %v", after, r, err)
	}
	if left, err := os.ReadDir(b.folder); err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
		t.Errorf("%s: left are %v, %v", after, left, err)
	}
}

// An administrator asks for updates by both doors; root, the journal and every status see
// it, and nothing has the secret in a URL that is refused.
func TestGateway_update(t *testing.T) {
	b := startBoard(t, nil)
	ctx := t.Context()
	const secret = "hunter2canary"
	for _, url := range []string{"https://chief:" + secret + "@example.test/x.update", "http://example.test/" + secret, "https://" + secret + "%zz", "file:///" + secret} {
		if _, err := b.Admin.StartUpdate(ctx, adminapi.NewUpdate{URL: url}); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", url, err)
		}
	}
	b.untouched(t, "refused")
	told, err := b.Admin.StartUpdate(ctx, adminapi.NewUpdate{URL: "https://example.test/x.update?key=" + secret})
	if r := b.taken(t); err != nil || r.Action != slot.Update || !strings.HasSuffix(r.URL, secret) || told.Sentences[0] != "Version 1.2.3 runs, from slot a." {
		t.Errorf("root is asked for %+v; the answer is %+v, %v", r, told, err)
	}
	if _, err := b.Admin.RollBack(ctx); err != nil || b.taken(t).Action != slot.Rollback {
		t.Errorf("going back: %v", err)
	}
	record := b.AwaitRecord("the record of the request", func(r site.Record) bool { return r.Kind == site.KindUpdate && r.Outcome == site.Requested })
	if record.Detail != "https://example.test/x.update" || !strings.HasPrefix(record.By, "uid ") {
		t.Errorf("the record is %+v", record)
	}
	b.says(t, site.UpdateStatus{Phase: site.UpdateWriting, Percent: 42, Target: "1.3.0"})
	b.Await("the status has the progress", func() bool {
		s, err := b.Admin.Status(ctx)
		return err == nil && s.Update.Percent == 42
	})
	if _, err := b.Admin.StartUpdate(ctx, adminapi.NewUpdate{URL: "https://example.test/y.update"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("while one is written: %v", err)
	}
	for _, r := range b.Records() {
		if strings.Contains(r.Detail, secret) {
			t.Errorf("the journal has the secret: %+v", r)
		}
	}
	if strings.Contains(b.Log(), secret) {
		t.Error("the log has the secret")
	}
}

// uploading reports whether the gateway takes an upload.
func (b *board) uploading() bool {
	s, err := b.Admin.Update(b.T.Context())
	return err == nil && s.Phase == site.UpdateFetching
}

// upload begins to send an update of that size in a browser; end says how it goes on, once the
// gateway takes it.
func (b *board) upload(t *testing.T, v *visitor, size int, end func(feed *io.PipeWriter)) (status int, text string) {
	t.Helper()
	body, feed := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, v.base+"/admin/v1/update/file", body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(size)
	var feeding sync.WaitGroup
	feeding.Go(func() {
		_, _ = io.WriteString(feed, strings.Repeat("u", size/2))
		b.Await("the upload is under way", b.uploading)
		end(feed)
	})
	defer feeding.Wait() // the gateway may have answered before end returns
	defer func() { _ = body.Close() }()
	resp, err := v.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer)
}

// An upload is kept for root when it is whole, and doors open while it is under way. What
// is cut off, or outlives the session of its sender, leaves nothing.
func TestGateway_upload(t *testing.T) {
	const size = 3 << 20
	b := startBoard(t, nil)
	issued := b.Enrol(1042)
	station := b.Dial(issued.MQTT)
	go func() {
		for {
			c, err := station.NextCommand()
			if err != nil || station.TryAck(c) != nil {
				return
			}
		}
	}()
	b.AwaitOnline(1042, true)
	bearer, _ := b.Login()
	v := visit(t, b.Config, b.HTTPS)
	signIn := func() { v.want(200, "POST", sessionPath, chiefSignsIn) }
	signIn()

	status, text := b.upload(t, v, size, func(feed *io.PipeWriter) {
		if !b.Unlock(bearer, issued.StationToken) {
			t.Error("no door opens while an update is uploaded")
		}
		_, _ = io.WriteString(feed, strings.Repeat("u", size-size/2))
		_ = feed.Close()
	})
	kept, err := os.ReadFile(filepath.Join(b.folder, "upload"))
	if r := b.taken(t); status != 202 || err != nil || len(kept) != size || !r.File {
		t.Errorf("answered %d %s; %d bytes are kept (%v), root is asked for %+v", status, text, len(kept), err, r)
	}
	if info, err := os.Stat(b.folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info, err)
	}

	if err := os.Remove(filepath.Join(b.folder, "upload")); err != nil { // as root does
		t.Fatal(err)
	}

	_, _ = b.upload(t, v, size, func(feed *io.PipeWriter) { _ = feed.CloseWithError(errors.New("unplugged")) })
	b.Await("the gateway ends an upload that is cut off", func() bool { return !b.uploading() })
	b.untouched(t, "cut off")

	status, text = b.upload(t, v, size, func(*io.PipeWriter) {
		if _, err := b.Admin.Revoke(t.Context(), chief); err != nil {
			t.Error(err)
		}
	})
	if status != 401 {
		t.Errorf("after the end of the session: %d %s", status, text)
	}
	b.untouched(t, "the session ended")

	signIn()
	plain := visit(t, b.Config, b.HTTP)
	plain.want(200, "POST", sessionPath, chiefSignsIn)
	status, text = b.upload(t, plain, size, func(*io.PipeWriter) {
		if err := b.Admin.RemoveAccount(t.Context(), chief); err != nil {
			t.Error(err)
		}
	})
	if status != 401 {
		t.Errorf("after the end of the account: %d %s", status, text)
	}
	b.untouched(t, "the account ended")
}

// What a power cut has left of an upload is removed at the next start.
func TestGateway_uploadLeftover(t *testing.T) {
	b := startBoard(t, func(b *board) {
		err := os.MkdirAll(b.folder, 0o700)
		for _, name := range []string{"upload", "upload.new"} {
			err = cmp.Or(err, os.WriteFile(filepath.Join(b.folder, name), []byte("u"), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	b.untouched(t, "started again")
}
