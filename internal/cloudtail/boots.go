package cloudtail

import (
	"slices"

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

// at gives the start that wrote a record; "" if that is not known.
func (b boots) at(seq uint64) site.BootID {
	for _, one := range slices.Backward(b) {
		if one.From <= seq {
			return one.Boot
		}
	}
	return ""
}

// agree reports whether the item may be what was given under its number.
func (b boots) agree(it item) bool {
	given := b.at(it.to)
	return given == "" || it.boot == "" || given == it.boot
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
