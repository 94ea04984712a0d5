package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatehouse/internal/site"
)

// status reads what root says about updates, on the machine.
func (s *shell) status(ctx context.Context) (st site.UpdateStatus, err error) {
	text, err := s.run(ctx, "cat /run/gatehouse-update/status.json")
	if err == nil {
		err = json.Unmarshal([]byte(text), &st)
	}
	return st, err
}

// install runs a command after which the machine tries a version, and returns when it
// restarts.
func (t *trial) install(ctx context.Context, m *machine, command string) error {
	s, err := m.openShell(ctx)
	if err != nil {
		return err
	}
	out, err := s.run(ctx, command+" || echo REFUSED")
	if errors.Is(err, errRestarted) {
		return nil
	}
	if err == nil && strings.Contains(out, "REFUSED") {
		err = errors.New(out)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return await(ctx, "the machine restarts", func() error {
		if m.starts() == s.start {
			return errors.New("it has not")
		}
		return nil
	})
}

// outcome waits until the update to a version has ended, in whatever start that is.
func (m *machine) outcome(ctx context.Context, version string) (st site.UpdateStatus, err error) {
	err = await(ctx, "the update has ended", func() error {
		s, err := m.openShell(ctx)
		if err == nil {
			st, err = s.status(ctx)
		}
		if e := m.checkRunning(); e != nil {
			return final{e}
		}
		if errors.Is(err, errRestarted) { // which this waits for
			return errRestarted
		}
		if err == nil && (st.Last == nil || st.Last.Version != version || st.Phase != site.UpdateIdle) {
			pause(ctx, 3*time.Second)
			err = fmt.Errorf("the status is %+v", st)
		}
		return err
	})
	return st, err
}
