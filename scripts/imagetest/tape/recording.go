package tape

import (
	"os"
	"slices"
)

// Keep decides by chance which sectors of writes that were not flushed a power cut leaves.
// The same number decides the same.
type Keep uint64

// The two that leave nothing to chance.
const (
	KeepNone Keep = 0
	KeepAll  Keep = 1
)

// sector reports whether the sector at an offset is left.
func (k Keep) sector(offset int64) bool {
	if k == KeepNone || k == KeepAll {
		return k == KeepAll
	}
	// A run of sectors has the same fate, as the pages of a card have.
	x := uint64(k) ^ uint64(offset/(8*Sector))*0x9e3779b97f4a7c15
	if k&2 != 0 { // or each sector has its own
		x = uint64(k) ^ uint64(offset/Sector)*0x9e3779b97f4a7c15
	}
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	return x&1 == 0
}

// Recording is what was recorded, to be replayed: first everything up to a moment, then
// on to a later one. The disks are those of before the recording. Not for concurrent use.
type Recording struct {
	Writes  []Write
	data    *os.File
	before  []*os.File
	durable []bool
	lies    bool
	applied []map[int64]origin // by disk and sector: what was flushed
	regions []*Region
	pending [][]int // by disk: the writes since the last flush
	at      int     // how many writes are replayed
}

// origin is which write a sector is from. The zero value is: none.
type origin struct {
	write  int   // its number, from 1
	offset int64 // in data, -1 for zeros
}

// Recording returns what was recorded, over the files that the disks were before.
func (t *Tape) Recording(before ...string) (*Recording, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var durable []bool
	for _, d := range t.disks {
		durable = append(durable, d.Durable)
	}
	return Load(t.data.Name(), t.writes, durable, before...)
}

// Load returns what was recorded in a file, of disks of which some were durable.
func Load(record string, writes []Write, durable []bool, before ...string) (r *Recording, err error) {
	r = &Recording{Writes: writes, durable: durable}
	if r.data, err = os.Open(record); err != nil {
		return nil, err
	}
	for _, name := range before {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		r.before = append(r.before, file)
	}
	r.Rewind(false)
	return r, nil
}

// Rewind goes back to before the first write. If the disks lie, no flush counts until
// the machine has written so much more that a cache must have been emptied.
func (r *Recording) Rewind(lies bool) {
	r.at, r.lies, r.regions = 0, lies, nil
	r.applied, r.pending = make([]map[int64]origin, len(r.before)), make([][]int, len(r.before))
	for i := range r.applied {
		r.applied[i] = map[int64]origin{}
	}
}

// lieLength is how many writes a disk that lies has not really written.
const lieLength = 400

// Play replays up to the writes before number to.
func (r *Recording) Play(to int) {
	for ; r.at < to; r.at++ {
		w := r.Writes[r.at]
		switch {
		case w.Flush() && !r.lies:
			for _, i := range r.pending[w.Disk] {
				r.flush(i)
			}
			r.pending[w.Disk] = nil
		case w.Flush():
		case r.durable[w.Disk]:
			r.flush(r.at)
		default:
			r.pending[w.Disk] = append(r.pending[w.Disk], r.at)
			if r.lies && len(r.pending[w.Disk]) > lieLength {
				r.flush(r.pending[w.Disk][0])
				r.pending[w.Disk] = r.pending[w.Disk][1:]
			}
		}
	}
}

// flush makes a write durable.
func (r *Recording) flush(number int) {
	w := r.Writes[number]
	applied := r.applied[w.Disk]
	for _, g := range r.regions {
		if g.disk != w.Disk || w.Offset+w.Length <= g.offset || w.Offset >= g.offset+g.size {
			continue
		}
		for sector := w.Offset / Sector; sector*Sector < w.Offset+w.Length; sector++ {
			if g.has(w.Disk, sector) {
				g.sum += mixed(sector, origin{write: number + 1}) - mixed(sector, applied[sector])
			}
		}
	}
	r.apply(applied, number, KeepAll)
}

// apply notes what of a write is left.
func (r *Recording) apply(to map[int64]origin, number int, keep Keep) {
	w := r.Writes[number]
	for at := int64(0); at < w.Length; at += Sector {
		if !keep.sector(w.Offset + at) {
			continue
		}
		from := origin{number + 1, -1}
		if w.At >= 0 {
			from.offset = w.At + at
		}
		to[(w.Offset+at)/Sector] = from
	}
}

// Pending returns how many writes to a disk wait for a flush at this moment.
func (r *Recording) Pending(disk int) int { return len(r.pending[disk]) }

// Cut returns a disk as a power cut at this moment leaves it. It is valid until the next
// Play.
func (r *Recording) Cut(disk int, keep Keep) *View {
	v := &View{r: r, disk: disk, over: map[int64]origin{}}
	for _, i := range r.pending[disk] {
		r.apply(v.over, i, keep)
	}
	return v
}

// View is a disk after a power cut.
type View struct {
	r    *Recording
	disk int
	over map[int64]origin
}

func (v *View) origin(sector int64) origin {
	if o, ok := v.over[sector]; ok {
		return o
	}
	return v.r.applied[v.disk][sector]
}

// ReadAt reads from the disk, whole sectors or parts of them.
func (v *View) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		sector := (offset + int64(n)) / Sector
		within := (offset + int64(n)) % Sector
		size := min(int64(len(p)-n), Sector-within)
		part := p[n : int64(n)+size]
		switch o := v.origin(sector); {
		case o.write == 0:
			// Neighbours that were never written are read at once.
			for int64(n)+size < int64(len(p)) && v.origin((offset+int64(n)+size)/Sector).write == 0 {
				size = min(size+Sector, int64(len(p)-n))
			}
			_, err = v.r.before[v.disk].ReadAt(p[n:int64(n)+size], offset+int64(n))
		case o.offset < 0:
			clear(part)
		default:
			_, err = v.r.data.ReadAt(part, o.offset+within)
		}
		if err != nil {
			return n, err
		}
		n += int(size)
	}
	return n, nil
}

// Region is a part of a disk whose changes are counted (Watch).
type Region struct {
	disk         int
	offset, size int64
	sum          uint64 // of what was flushed
}

// Watch counts the changes of a part of a disk. To be called before the first Play, and
// after each Rewind.
func (r *Recording) Watch(disk int, offset, size int64) *Region {
	region := &Region{disk, offset, size, 0}
	r.regions = append(r.regions, region)
	return region
}

func (g *Region) has(disk int, sector int64) bool {
	return g.disk == disk && sector*Sector >= g.offset && sector*Sector < g.offset+g.size
}

// mixed returns a number for a sector and where it is from; 0 for one that was not written.
func mixed(sector int64, o origin) uint64 {
	if o.write == 0 {
		return 0
	}
	x := uint64(sector)*0x9e3779b97f4a7c15 ^ uint64(o.write)*0xbf58476d1ce4e5b9
	x ^= x >> 31
	x *= 0x94d049bb133111eb
	return x ^ x>>29
}

// Fingerprint returns a number that is the same for the same writes in a region.
func (v *View) Fingerprint(g *Region) uint64 {
	sum := g.sum
	for sector, o := range v.over {
		if g.has(v.disk, sector) {
			sum += mixed(sector, o) - mixed(sector, v.r.applied[v.disk][sector])
		}
	}
	return sum
}

// Key returns a number that is the same for the same writes in a part of the disk.
func (v *View) Key(offset, size int64) (sum uint64) {
	for sector := offset / Sector; sector*Sector < offset+size; sector++ {
		sum += mixed(sector, v.origin(sector))
	}
	return sum
}

// WriteTo changes a copy of a part of the disk from before the recording into this one.
func (v *View) WriteTo(file *os.File, offset, size int64) error {
	var sectors []int64
	note := func(sector int64) {
		if sector*Sector >= offset && sector*Sector < offset+size {
			sectors = append(sectors, sector)
		}
	}
	for sector := range v.r.applied[v.disk] {
		note(sector)
	}
	for sector := range v.over {
		if _, both := v.r.applied[v.disk][sector]; !both {
			note(sector)
		}
	}
	slices.Sort(sectors)
	for len(sectors) > 0 {
		n := 1
		for n < len(sectors) && n < 2048 && sectors[n] == sectors[0]+int64(n) {
			n++
		}
		p := make([]byte, n*Sector)
		if _, err := v.ReadAt(p, sectors[0]*Sector); err != nil {
			return err
		}
		if _, err := file.WriteAt(p, sectors[0]*Sector-offset); err != nil {
			return err
		}
		sectors = sectors[n:]
	}
	return nil
}
