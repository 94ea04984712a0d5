package access

import (
	"context"
	"time"

	"gatehouse/internal/site"
)

// Store keeps accounts, sessions and grants over restarts. Each method is one
// transaction that also appends the record it is given, so that nothing changes
// unrecorded; an error means that nothing was written. Its methods may be called
// concurrently. Errors without a [gatehouse/internal/fault.Kind] of their own
// count as Unavailable.
type Store interface {
	// LoadAccess reads everything, in any order.
	LoadAccess(ctx context.Context) ([]site.Account, []site.Session, []site.Grant, error)

	// LoginAddresses reads the client addresses of logins that are still kept, in any
	// order; see AddSession.
	LoginAddresses(ctx context.Context) ([]site.LoginAddress, error)

	// AddAccount stores a new account; Conflict when its e-mail address is taken.
	AddAccount(ctx context.Context, account site.Account, rec site.Record) error
	// UpdateAccount replaces what is stored of the account with that id; NotFound
	// when there is none.
	UpdateAccount(ctx context.Context, account site.Account, rec site.Record) error
	// RemoveAccount removes the account with its sessions and grants; NotFound when
	// there is none.
	RemoveAccount(ctx context.Context, account site.AccountID, rec site.Record) error
	// UpgradePassword replaces the hash of an unchanged password; no record.
	UpgradePassword(ctx context.Context, account site.AccountID, hash site.Secret) error

	// AddSession stores a new session and deletes the evicted ones. It keeps the session's
	// client address for its account until the session would expire, also where it ends
	// before, and the newest [site.MaxLoginAddresses] of an account.
	AddSession(ctx context.Context, session site.Session, evicted []site.SessionID, rec site.Record) error
	// EndSessions deletes sessions; ids that are not there are passed over.
	EndSessions(ctx context.Context, sessions []site.SessionID, rec site.Record) error
	// RebaseSessions gives sessions a new expiry and marks them as resting on a
	// trusted clock; ids that are not there are passed over. No record.
	RebaseSessions(ctx context.Context, expires map[site.SessionID]time.Time) error
	// DropExpired deletes the sessions and client addresses whose expiry is not after
	// now; no record.
	DropExpired(ctx context.Context, now time.Time) error

	// PutGrant stores a grant in place of the one for the same account and station;
	// NotFound when either does not exist.
	PutGrant(ctx context.Context, grant site.Grant, rec site.Record) error
	// RemoveGrant deletes a grant; NotFound when there is none.
	RemoveGrant(ctx context.Context, account site.AccountID, station site.StationID, rec site.Record) error

	// AppendRecord writes a record that goes with no other change.
	AppendRecord(ctx context.Context, rec site.Record) error
}
