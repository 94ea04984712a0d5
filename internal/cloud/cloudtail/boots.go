package cloudtail

import (
	"slices"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
)

// maxBoots is how many starts of a gateway are remembered; what is older counts as had
// whatever start it names.
const maxBoots = 256

// boots says which start of a gateway wrote which records: oldest first.
type boots []boot

// boot is one start, with the first record of it that was given; "" where gaps stood.
type boot struct {
	From uint64      `json:"from"`
	Boot site.BootID `json:"boot"`
}

// at gives the start that wrote a record, "" where a gap stood; false if that is not
// known.
func (b boots) at(seq uint64) (given site.BootID, known bool) {
	for _, one := range slices.Backward(b) {
		if one.From <= seq {
			return one.Boot, true
		}
	}
	return "", false
}

// agree reports whether the item may be what was given under its number. A record whose
// place a gap took was not.
func (b boots) agree(it item) bool {
	given, known := b.at(it.to)
	return !known || it.boot == "" || given == it.boot
}

// inGap reports whether a gap was given in the place of that record.
func (b boots) inGap(seq uint64) bool {
	given, known := b.at(seq)
	return known && given == ""
}

// add notes what is given next.
func (b *boots) add(it item) {
	if n := len(*b); n > 0 && (*b)[n-1].Boot == it.boot {
		return
	}
	if len(*b) >= maxBoots {
		*b = slices.Delete(*b, 0, 1)
	}
	*b = append(*b, boot{From: it.from, Boot: it.boot})
}

// cut forgets the records from a seq on.
func (b *boots) cut(from uint64) {
	*b = slices.DeleteFunc(*b, func(one boot) bool { return one.From >= from })
}

// news reports whether a status differs in more than the gateway's progress.
func (l *ledger) news(s api.Status) bool {
	moved := s.Journal != nil
	s.Journal = nil
	text := string(api.Encode(s))
	same := moved && text == l.status
	l.status = text
	return !same
}
