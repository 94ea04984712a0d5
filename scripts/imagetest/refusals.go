package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/install/updatefile"
)

// refused is an update that the machine must refuse, and a word of the reason.
type refused struct {
	what, path, word string
	v                *variant
	before, after    string // commands on the machine
}

// untouched says what a start would take.
const untouched = "cat /boot/efi/loader/loader.conf /boot/efi/loader/entries/* | sha256sum; ls /boot/efi/gatehouse/* /sys/firmware/efi/efivars | grep -e vmlinuz -e OneShot"

// badUpdates has the machine refuse updates, before anything is written.
func (t *trial) badUpdates(ctx context.Context) error {
	if _, _, err := t.makeGood(ctx); err != nil {
		return err
	}
	m, err := t.powerOn(ctx, power{})
	if err != nil {
		return err
	}
	defer func() { _ = m.cutPower() }()
	if _, err := m.connect(ctx, t.name); err != nil {
		return err
	}
	other, err := api.Generate("other")
	if err != nil {
		return err
	}
	s, err := m.openShell(ctx)
	if err != nil {
		return err
	}
	state, err := s.run(ctx, untouched)
	if err != nil {
		return err
	}
	for _, r := range []refused{
		{what: "a wrong key", path: "key.update", word: "key", v: &variant{key: &other}},
		{what: "another board", path: "board.update", word: "family", v: &variant{change: func(m *updatefile.Manifest) { m.Family = "gatehouse-amd64" }}},
		{what: "a downgrade", path: "old.update", word: "older", v: &variant{
			entry:  func(text string) string { return strings.ReplaceAll(text, "version ", "version 0~") },
			change: func(m *updatefile.Manifest) { m.Version = "0~" + m.Version },
		}},
		{what: "a cut stream", path: "cut/good.update"},
		{
			what: "a full card", path: "good.update", word: "room",
			before: "fallocate -l $(($(stat -f -c '%a*%S' /var) - 20000000)) /var/full; df /var | tail -1", after: "rm /var/full",
		},
	} {
		if err := t.refuse(ctx, s, r); err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		now, err := s.run(ctx, untouched)
		if err == nil && now != state {
			err = fmt.Errorf("%s: what the next start takes has changed: it was\n%s\nand is\n%s", r.what, state, now)
		}
		if err != nil {
			return err
		}
	}
	return m.pressButton(ctx)
}

func (t *trial) refuse(ctx context.Context, s *shell, r refused) error {
	if r.v != nil {
		if _, err := t.workshop.makeVariant(r.path, *r.v); err != nil {
			return err
		}
	}
	if r.before != "" {
		if _, err := s.run(ctx, r.before); err != nil {
			return err
		}
	}
	out, err := s.run(ctx, "gatehouse update "+t.updates+r.path+" </dev/null 2>&1 && echo TAKEN")
	if err != nil {
		return err
	}
	if r.after != "" {
		if _, err := s.run(ctx, r.after); err != nil {
			return err
		}
	}
	t.say("%s: gatehouse update says: %s", r.what, strings.TrimPrefix(out[strings.LastIndexAny(out, "\n\x1b")+1:], "[K"))
	if strings.Contains(out, "TAKEN") || !strings.Contains(out, r.word) {
		return errors.New("it was not refused, or not for that reason:\n" + out)
	}
	return nil
}
