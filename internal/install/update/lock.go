package update

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
)

const (
	// lockRetry is how often a waiting process tries to get the lock.
	lockRetry = time.Second
	// lockPatience is longer than the service holds the lock where it has nothing to do: it may ask the gateway.
	lockPatience = askTimeout + 5*time.Second
)

// lock acquires the lock of updates, which one process holds, and reads the state. If
// another process holds it, lock waits: when patient until ctx ends, else for
// lockPatience, after which the error is Conflict. The lock ends with the process.
func (u *Updater) lock(ctx context.Context, patient bool) (release func(), missing bool, err error) {
	if err := os.MkdirAll(u.Folder, 0o700); err != nil {
		return nil, false, fmt.Errorf("making the folder of updates: %w", err)
	}
	f, err := os.OpenFile(u.path(lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("locking updates: %w", err)
	}
	release = func() {
		// A child that was just forked has the file too, until it executes its program.
		_ = errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
	}
	for until := time.Now().Add(lockPatience); ; {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		if !patient && time.Now().After(until) {
			release()
			return nil, false, fault.New(fault.Conflict, "Another update or check is in progress: \"gatehouse update status\" shows how far an update is")
		}
		if err = pause(ctx, lockRetry); err != nil {
			break
		}
	}
	if err == nil {
		missing, err = u.load()
	}
	if err == nil {
		if u.standard, err = u.Board.Default(); err != nil && patient && !missing { // the service; a lost state stays lost
			u.decline(err)
		}
	}
	if err != nil {
		release()
		return nil, false, err
	}
	return release, missing, nil
}

// pause waits, or returns the error of ctx if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
