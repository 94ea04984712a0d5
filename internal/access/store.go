package access

import (
	"context"
	"time"

	"gatehouse/internal/site"
)

// Store keeps accounts, sessions, grants, groups and holidays over restarts; what administrators change of
// them, and the end of sessions, is stored by package amend. Each method is one transaction that also appends the
// record it is given, so that nothing changes unrecorded; an error means that nothing was
// written. Its methods may be called concurrently. Errors without a
// [gatehouse/internal/fault.Kind] of their own count as Unavailable.
type Store interface {
	// LoadAccess reads everything.
	LoadAccess(ctx context.Context) (site.Access, error)

	// UpgradePassword replaces a hash of a password, if that is still the account's, by
	// another one of the same password; no record.
	UpgradePassword(ctx context.Context, account site.AccountID, from, to site.Secret) error

	// AddSession stores a new session. It keeps the hash of its device's secret, unless that is
	// zero, for the account until the session would expire, also where it ends before, and the
	// newest [site.MaxLoginDevices] of an account.
	AddSession(ctx context.Context, session site.Session, device [32]byte, rec site.Record) error
	// RebaseSessions sets a new expiry of sessions and their devices, and marks them as resting on a
	// trusted clock; ids that are not there are passed over. No record.
	RebaseSessions(ctx context.Context, expires map[site.SessionID]time.Time) error
	// DropExpired deletes the sessions and devices whose expiry is not after
	// now, and stores uses; no record.
	DropExpired(ctx context.Context, now time.Time, uses site.Uses) error

	// AppendRecord writes a record that goes with no other change.
	AppendRecord(ctx context.Context, rec site.Record) error
}
