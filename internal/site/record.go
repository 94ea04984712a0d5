package site

// Kind is the kind of a journal record.
type Kind string

// The kinds of records (contract, section 4). Every change made by an
// administrator has a kind of its own.
const (
	KindUnlock         Kind = "unlock"
	KindLogin          Kind = "login"
	KindLoginFailed    Kind = "login-failed"
	KindSessionRevoked Kind = "session-revoked"
	KindStationOnline  Kind = "station-online"
	KindStationOffline Kind = "station-offline"
	KindLockChanged    Kind = "lock-changed"
	KindBatteryLow     Kind = "battery-low"
	KindDoorOpened     Kind = "door-opened"
	KindDoorClosed     Kind = "door-closed"
	KindNotOpened      Kind = "not-opened"     // after an unlock that succeeded
	KindDoorForced     Kind = "door-forced"    // opened with no unlock or exit before
	KindDoorHeld       Kind = "door-held"      // open too long
	KindLeftUnlocked   Kind = "left-unlocked"  // a lock, too long
	KindStationSilent  Kind = "station-silent" // no connection, too long
	KindRefusedOften   Kind = "refused-often"  // unlocks or logins of a station
	KindAccountAdded   Kind = "account-added"
	KindAccountChanged Kind = "account-changed"
	KindAccountRemoved Kind = "account-removed"
	KindStationAdded   Kind = "station-added"
	KindStationChanged Kind = "station-changed"
	KindStationRotated Kind = "station-rotated"
	KindStationRemoved Kind = "station-removed"
	KindGranted        Kind = "granted"
	KindUngranted      Kind = "ungranted"
	KindTokenAdded     Kind = "token-added"   // an integration token; account is its id
	KindTokenRemoved   Kind = "token-removed" // likewise
	KindGroupAdded     Kind = "group-added"
	KindGroupChanged   Kind = "group-changed" // an account or a station was added or removed
	KindGroupRemoved   Kind = "group-removed"
	KindHolidayChanged Kind = "holiday-changed" // added, or with other dates
	KindHolidayRemoved Kind = "holiday-removed"
	KindStarted        Kind = "gateway-started"
	KindStopped        Kind = "gateway-stopped"
	KindClockChanged   Kind = "clock-changed"
	KindClockAccepted  Kind = "clock-accepted" // an administrator vouches for the system's time
	KindClockReset     Kind = "clock-reset"    // an administrator lowered the time floor; later records may have earlier times
	KindRecordsLost    Kind = "records-lost"   // storage failed for so long that memory overflowed, or the database was damaged
	KindTimeZone       Kind = "time-zone-changed"
	KindBackupTaken    Kind = "backup-taken" // everything that makes this gateway left it, encrypted
	KindRestored       Kind = "restored"     // what follows was written by a gateway restored from a backup
	KindUpdate         Kind = "update"       // of the system: asked for, or how it ended
	KindTakenBack      Kind = "taken-back"   // an older version took back its database after the trial of a newer one
	KindCloudOnline    Kind = "cloud-online"
	KindCloudOffline   Kind = "cloud-offline"
	KindDenied         Kind = "unlock-denied"    // a right was missing; the detail is a Denial
	KindThrottled      Kind = "unlock-throttled" // an account asked for more unlocks than it may; none of these was sent
	KindGap            Kind = "gap"              // records had to be removed that the cloud had not taken yet, or that fill the share of their kind
)

// Kinds lists every kind, for those who choose among records.
func Kinds() []Kind {
	return []Kind{
		KindUnlock, KindLogin, KindLoginFailed, KindSessionRevoked,
		KindStationOnline, KindStationOffline, KindLockChanged, KindBatteryLow,
		KindDoorOpened, KindDoorClosed, KindNotOpened,
		KindDoorForced, KindDoorHeld, KindLeftUnlocked, KindStationSilent, KindRefusedOften,
		KindAccountAdded, KindAccountChanged, KindAccountRemoved,
		KindStationAdded, KindStationChanged, KindStationRotated, KindStationRemoved,
		KindGranted, KindUngranted, KindTokenAdded, KindTokenRemoved,
		KindGroupAdded, KindGroupChanged, KindGroupRemoved, KindHolidayChanged, KindHolidayRemoved, KindStarted, KindStopped,
		KindClockChanged, KindClockAccepted, KindClockReset, KindRecordsLost, KindTimeZone, KindBackupTaken, KindRestored, KindTakenBack,
		KindUpdate, KindCloudOnline, KindCloudOffline, KindDenied, KindThrottled, KindGap,
	}
}

// Evidence reports whether strangers, stations or the network cause records of the kind,
// however many there are. They have a share of the journal, so that they never rotate out
// who opened a door and who changed what.
func (k Kind) Evidence() bool {
	switch k {
	case KindLoginFailed, KindDenied, KindThrottled, KindStationOnline, KindStationOffline, KindLockChanged, KindBatteryLow,
		KindDoorOpened, KindDoorClosed, KindNotOpened, KindDoorForced, KindDoorHeld, KindLeftUnlocked,
		KindStationSilent, KindRefusedOften, KindCloudOnline, KindCloudOffline:
		return true
	default:
		return false
	}
}

// Record is one line of the journal. Seq, Time, ClockTrusted and Boot are filled
// in by the store when they are zero; the caller states Kind and Facts. As JSON
// it is one flat object; its field order is fixed, because the bytes are hashed.
type Record struct {
	Seq          uint64    `json:"seq"`
	Time         Timestamp `json:"time"`
	ClockTrusted bool      `json:"clockTrusted"`
	Boot         BootID    `json:"boot"`
	Kind         Kind      `json:"kind"`
	Facts
}

// Facts are what a record states beside its kind; fields that do not apply are
// absent. No secret ever stands here.
type Facts struct {
	Origin         Origin     `json:"origin,omitempty"`
	Account        AccountID  `json:"account,omitempty"`
	Email          Email      `json:"email,omitempty"`
	Session        SessionID  `json:"session,omitempty"`
	By             string     `json:"by,omitempty"` // the administrator or signer
	Station        StationID  `json:"station,omitempty"`
	Lock           string     `json:"lock,omitempty"` // "lock-1"
	Command        CommandID  `json:"commandId,omitempty"`
	Outcome        Outcome    `json:"outcome,omitempty"`
	Answer         string     `json:"answer,omitempty"` // of a late answer: "puback", "done", …
	IdempotencyKey string     `json:"idempotencyKey,omitempty"`
	Status         LockStatus `json:"status,omitempty"`
	BatteryVoltage *float64   `json:"batteryVoltage,omitempty"` // volts
	Remote         string     `json:"remote,omitempty"`         // client address
	Detail         string     `json:"detail,omitempty"`         // a constant sentence, or what changed
	Count          int        `json:"count,omitempty"`
	JTI            string     `json:"jti,omitempty"`     // the id that the cloud gave its command
	KeyID          string     `json:"kid,omitempty"`     // the key that signed that command; By is what its signer claims
	From           uint64     `json:"from,omitempty"`    // of a gap or a loss: the first seq that is gone
	To             uint64     `json:"to,omitempty"`      // and the last
	Version        string     `json:"version,omitempty"` // of an update
}

// ByActor returns the facts that name who did something.
func ByActor(a Actor) Facts {
	return Facts{Origin: a.Origin, Account: a.Account, Email: a.Email, Session: a.Session, By: a.Name, KeyID: a.KeyID}
}

// Doer returns the displayed name of the actor: for a signed command "claimed name
// (signed by key)", because the signer chooses the name.
func (f *Facts) Doer() string {
	switch {
	case f.KeyID == "":
		return f.By
	case f.By == "":
		return "(signed by " + f.KeyID + ")"
	default:
		return f.By + " (signed by " + f.KeyID + ")"
	}
}
