package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

var errNotOpened = errors.New("the answer is success:false")

// verdict is what a journal says of what clients and stations have seen.
type verdict struct {
	records  int // unlocks in the journal
	answered int // unlocks that a client was told to have succeeded
	lost     int // of them, those without a record
	unasked  int // openings without a record
}

// judge compares the journal on the disk of the machine, which is off, with what
// clients and stations have seen. The chain of the journal must be whole.
func (t *trial) judge(ctx context.Context) (verdict, error) {
	data, err := t.pullData(ctx)
	if err != nil {
		return verdict{}, err
	}
	if err := command(ctx, t.binary, "journal", "verify", filepath.Join(data, "gatehouse.db")); err != nil {
		return verdict{}, fmt.Errorf("the journal on the disk: %w", err)
	}
	journalled, err := t.readJournal(ctx, data)
	if err != nil {
		return verdict{}, err
	}
	answered, opened := t.record.copies()
	v := verdict{records: len(journalled), answered: len(answered)}
	for id := range answered {
		if !journalled[id] {
			v.lost++
		}
	}
	for id := range opened {
		if !journalled[id] {
			v.unasked++
		}
	}
	return v, nil
}

// readJournal runs a gateway here with a copy of the board's data, and returns the
// commands of the unlocks in its journal.
func (t *trial) readJournal(ctx context.Context, data string) (map[string]bool, error) {
	socket := filepath.Join(t.dir, "admin.sock")
	config := filepath.Join(t.dir, "gatehouse.toml")
	text := fmt.Sprintf("data = %q\n[http]\nlisten = [\"127.0.0.1:0\"]\n[mqtt]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nsocket = %q\n", data, socket)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gateway := child(ctx, t.binary, "serve", "--config", config)
	var log bytes.Buffer
	gateway.Stdout, gateway.Stderr = &log, &log
	if err := gateway.Start(); err != nil {
		return nil, err
	}
	defer func() { cancel(); _ = gateway.Wait() }()
	ready := func() error { return command(ctx, t.binary, "status", "--socket", socket) }
	if err := await(ctx, 30*time.Second, "a gateway with the board's data is ready here", ready); err != nil {
		cancel()
		_ = gateway.Wait()
		return nil, fmt.Errorf("%w\n%s", err, log.String())
	}
	out, err := exec.CommandContext(ctx, t.binary, "journal", "--json", "--kind", "unlock", "--socket", socket).Output()
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	return commands(out)
}

// commands returns the command ids of journal records.
func commands(list []byte) (map[string]bool, error) {
	var records []struct {
		CommandID string `json:"commandId"`
	}
	if err := json.Unmarshal(list, &records); err != nil {
		return nil, fmt.Errorf("the records of the journal: %w", err)
	}
	ids := make(map[string]bool, len(records))
	for _, r := range records {
		ids[r.CommandID] = true
	}
	return ids, nil
}
