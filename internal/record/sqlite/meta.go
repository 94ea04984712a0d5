package sqlite

import (
	"context"
	"strconv"

	"github.com/google/uuid"

	"gatehouse/internal/site"
)

// The keys of table meta.
const (
	metaGateway  = "gateway_id"
	metaFloor    = "clock_floor"    // milliseconds since 1970 UTC; see [floor]
	metaSteps    = "clock_steps"    // JSON of [clockStep]
	metaTimeZone = "time_zone"      // IANA name, as a site file set it
	metaCursor   = "cloud_cursor"   // the last seq that the cloud has acknowledged
	metaStations = "cloud_stations" // JSON list of the stations whose state the cloud has
	metaUpdate   = "update_end"     // the last outcome of an update that has its record
	metaAsked    = "asked"          // another text for each change that is about to be stored
	metaRevoked  = "revoked"        // the number of the last [site.Amendment] that was pending
	metaTaken    = "taken_back"     // JSON of the last [site.TakenBack]
	metaRestore  = "restore"        // another text for each restore; see [progress]
)

// GatewayID returns this gateway's id. The first call creates it.
func (db *DB) GatewayID(ctx context.Context) (site.GatewayID, error) {
	id, err := db.meta(ctx, metaGateway)
	if err == nil && id == "" {
		id = uuid.NewString()
		err = db.change(ctx, false, func(t *transaction) error { return t.setMeta(metaGateway, id) })
	}
	return site.GatewayID(id), err
}

// Revoked returns the number of the last revocation that is stored, 0 where there is none.
func (db *DB) Revoked(ctx context.Context) (number uint64, err error) {
	number, err = revoked(ctx, db.reader())
	return number, storageError(err)
}

// revoked is Revoked of any database file.
func revoked(ctx context.Context, q queryer) (number uint64, err error) {
	text, err := readMeta(ctx, q, metaRevoked)
	if err == nil && text != "" {
		number, err = strconv.ParseUint(text, 10, 64)
	}
	return number, err
}

// TimeZone returns the time zone that a site file set, or "".
func (db *DB) TimeZone(ctx context.Context) (string, error) { return db.meta(ctx, metaTimeZone) }

// meta returns a named value, or "" where there is none.
func (db *DB) meta(ctx context.Context, key string) (string, error) {
	value, err := readMeta(ctx, db.reader(), key)
	return value, storageError(err)
}

// readMeta is meta of any database file.
func readMeta(ctx context.Context, q queryer, key string) (value string, err error) {
	err = q.QueryRowContext(ctx, "SELECT coalesce(max(value), '') FROM meta WHERE key = ?", key).Scan(&value)
	return value, err
}

func (db *DB) setMeta(ctx context.Context, key, value string) error {
	return db.do(ctx, func(t *transaction) error { return t.setMeta(key, value) })
}

func (t *transaction) setMeta(key, value string) error {
	_, err := t.exec("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, value)
	return err
}
