package station

import (
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

// trail bounds the records of one thing that changes. A station that flaps, broken or
// hostile, fills no journal; whatever was left out is counted in the next record, and the
// journal is brought up to date once there is room.
type trail struct {
	rate    limit.Rate
	bucket  limit.Bucket
	skipped int // left out since the last record
}

// presenceTrail allows at most 60 records in any minute.
func presenceTrail() trail { return trail{rate: limit.Rate{Burst: 30, Every: 2 * time.Second}} }

// lockTrail is that of one lock, and of one door: a busy one has more than a thousand
// changes a day, and one that flaps has one record a minute.
func lockTrail() trail { return trail{rate: limit.Rate{Burst: 60, Every: time.Minute}} }

func batteryTrail() trail { return trail{rate: limit.Rate{Burst: 2, Every: time.Hour}} }

// detailCaughtUp is the detail of a record that makes up for others.
const detailCaughtUp = "changed too often for a record each"

// effect is what follows from a transition of one station.
type effect struct {
	event   bool // the Station object changed beyond lastConnection
	records []site.Record
	now     time.Time // by the gateway's clock
	moment  time.Time // a reading of [time.Now], for what must not go by the gateway's clock
}

// record adds a record, or counts it as left out.
func (e *effect) record(t *trail, kind site.Kind, facts site.Facts) {
	if t.bucket.Wait(e.moment, t.rate) > 0 {
		t.skipped++
		return
	}
	t.bucket.Take(e.moment, t.rate)
	facts.Count, t.skipped = t.skipped, 0
	e.records = append(e.records, site.Record{Kind: kind, Facts: facts})
}

// owes reports whether records were left out and there is room for one. The caller adds
// it: it stands for one of them, and counts the others.
func (e *effect) owes(t *trail) bool {
	if t.skipped == 0 || t.bucket.Wait(e.moment, t.rate) > 0 {
		return false
	}
	t.skipped--
	return true
}

// catchUp brings the journal up to date where records were left out.
func (l *live) catchUp(e *effect) {
	if e.owes(&l.presence) {
		l.recordPresence(e, site.Facts{Detail: detailCaughtUp})
	}
	for i := range l.locks {
		k, id := &l.locks[i], site.LockID(i+1)
		if e.owes(&k.changes) {
			l.recordLock(e, id, detailCaughtUp)
		}
		if k.door != site.DoorUnknown && e.owes(&k.passages) {
			l.recordDoor(e, id, detailCaughtUp)
		}
	}
}

// allowLast allows the last records of a run, whatever was recorded before: the next run
// begins with the saved states, and would not know that the journal lacks one.
func (l *live) allowLast(*effect) {
	l.presence.bucket = limit.Bucket{}
	for i := range l.locks {
		l.locks[i].changes.bucket, l.locks[i].passages.bucket = limit.Bucket{}, limit.Bucket{}
	}
	l.ending = true
}
