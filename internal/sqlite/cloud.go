package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/journal"
	"gatehouse/internal/site"
)

// TakeCommand keeps the id of a command from the cloud for good, before it is carried
// out. fault.Conflict when it is there already.
func (db *DB) TakeCommand(ctx context.Context, c site.TakenCommand) error {
	return db.do(ctx, func(t *transaction) error {
		_, err := t.exec("INSERT INTO cloud_command (id, until, outcome, ended) VALUES (?, ?, ?, ?)",
			c.ID, toMillis(c.Until), string(cmp.Or(c.Outcome, site.Requested)), toMillis(c.Ended))
		return err
	})
}

// EndCommand keeps how a command that was taken has ended. fault.NotFound when it was
// not.
func (db *DB) EndCommand(ctx context.Context, id string, outcome site.Outcome, at time.Time) error {
	return db.do(ctx, func(t *transaction) error {
		return t.mustChange("Command", "UPDATE cloud_command SET outcome = ?, ended = ? WHERE id = ?", string(outcome), toMillis(at), id)
	})
}

// TakenCommands gives every command that was taken and is not forgotten.
func (db *DB) TakenCommands(ctx context.Context) ([]site.TakenCommand, error) {
	all, err := query(ctx, db, "SELECT id, until, outcome, ended FROM cloud_command ORDER BY until, id", scanTaken)
	if err != nil {
		return nil, fmt.Errorf("reading the commands that were taken: %w", err)
	}
	return all, nil
}

func scanTaken(rows *sql.Rows) (c site.TakenCommand, err error) {
	var until, ended int64
	err = rows.Scan(&c.ID, &until, &c.Outcome, &ended)
	c.Until, c.Ended = fromMillis(until), fromMillis(ended)
	return c, err
}

// ForgetCommands forgets those whose Until is before a moment, and says how many; step
// by step, so that who writes meanwhile waits for no more than one step.
func (db *DB) ForgetCommands(ctx context.Context, before time.Time) (forgotten int, err error) {
	for rows := int64(pruneStep); err == nil && rows == pruneStep; {
		err = db.do(ctx, func(t *transaction) (err error) {
			rows, err = t.exec("DELETE FROM cloud_command WHERE id IN (SELECT id FROM cloud_command WHERE until < ? LIMIT ?)", toMillis(before), pruneStep)
			return err
		})
		if err == nil {
			forgotten += int(rows)
		}
	}
	return forgotten, err
}

// commandsWait stands for a moment that is not known yet.
const commandsWait = "0"

// CommandsFrom says which commands of the cloud a gateway may carry out that was
// restored from a backup: what it took after the backup is not known to it, so that
// someone who kept such a command could have it carried out again where the clock went
// back too. While waiting is true, none, until a trusted clock has told a moment for
// [DB.SaveCommandsFrom]; then those that were issued from then on. A gateway that was
// never restored may carry out all: the zero time.
func (db *DB) CommandsFrom(ctx context.Context) (from time.Time, waiting bool, err error) {
	text, err := db.meta(ctx, metaCommands)
	if err != nil || text == "" {
		return from, false, err
	}
	if ms, damaged := strconv.ParseInt(text, 10, 64); damaged == nil && text != commandsWait {
		return time.UnixMilli(ms).UTC(), false, nil
	}
	return from, true, nil
}

// SaveCommandsFrom keeps the first moment that a trusted clock has told since the
// gateway was restored.
func (db *DB) SaveCommandsFrom(ctx context.Context, from time.Time) error {
	return db.setMeta(ctx, metaCommands, strconv.FormatInt(from.UnixMilli(), 10))
}

// CloudCursor gives the last seq that the cloud has taken, 0 before the first. It is
// never beyond the newest record: a cursor that is damaged holds no record back.
func (db *DB) CloudCursor(ctx context.Context) (uint64, error) {
	text, err := db.meta(ctx, metaCursor)
	if err != nil || text == "" {
		return 0, err
	}
	seq, damaged := strconv.ParseUint(text, 10, 63)
	if damaged != nil {
		db.log.Error("the saved place in the journal is damaged; the cloud gets every record again", "error", damaged)
		seq = 0
	}
	return min(seq, db.Latest()), nil
}

// SaveCloudCursor keeps the last seq that the cloud has taken.
func (db *DB) SaveCloudCursor(ctx context.Context, seq uint64) error {
	return db.setMeta(ctx, metaCursor, strconv.FormatUint(seq, 10))
}

// CloudStations gives the stations whose state stands at the cloud.
func (db *DB) CloudStations(ctx context.Context) ([]site.StationID, error) {
	text, err := db.meta(ctx, metaStations)
	if err != nil || text == "" {
		return nil, err
	}
	var ids []site.StationID
	if damaged := json.Unmarshal([]byte(text), &ids); damaged != nil {
		db.log.Error("the saved list of stations at the cloud is damaged; what was removed may still stand there", "error", damaged)
	}
	return ids, nil
}

// SaveCloudStations keeps them.
func (db *DB) SaveCloudStations(ctx context.Context, ids []site.StationID) error {
	text, err := json.Marshal(ids)
	if err != nil {
		return fault.Wrap(fault.Internal, "The list of stations cannot be written", err)
	}
	return db.setMeta(ctx, metaStations, string(text))
}

// outboxBytes bounds what one call of Outbox gives.
const outboxBytes = 256 << 10

// Outbox gives the records that follow a seq as they stand, in order: at most so many,
// and no more than make 256 KiB, but one at least where there is one. A damaged one is
// given as it is.
func (db *DB) Outbox(ctx context.Context, after uint64, limit int) ([]journal.Entry, error) {
	rows, err := db.reading.QueryContext(ctx, "SELECT seq, body FROM journal WHERE seq > ? ORDER BY seq LIMIT ?", int64(after), limit) //nolint:gosec // seq fits
	if err != nil {
		return nil, storageError(err)
	}
	defer func() { _ = rows.Close() }()
	var all []journal.Entry
	for size := 0; size < outboxBytes && rows.Next(); {
		var e journal.Entry
		if err := rows.Scan(&e.Seq, &e.Body); err != nil {
			return nil, storageError(err)
		}
		if size += len(e.Body); size > outboxBytes && len(all) > 0 {
			break
		}
		all = append(all, e)
	}
	return all, storageError(rows.Err())
}
