package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
)

// pageSize is the size of every page of a database of ours, in bytes: SQLite's default,
// which nothing changes.
const pageSize = 4096

// pages reads a database file page by page, without SQLite, so that a damaged page
// costs no more than its own content. The format of pages and of the log beside the
// file is https://www.sqlite.org/fileformat2.html. Not safe for concurrent use.
type pages struct {
	file, log *os.File
	count     uint32
	logged    map[uint32]int64 // where in the log the newest of a page stands
	buffer    [pageSize]byte
}

// openPages opens a database file and the log beside it, if there is one.
func openPages(path string) (*pages, error) {
	file, err := os.Open(path) //nolint:gosec // the path is the administrator's
	if err != nil {
		return nil, err
	}
	p := &pages{file: file, logged: make(map[uint32]int64)}
	if info, err := file.Stat(); err == nil {
		p.count = uint32(info.Size() / pageSize) //nolint:gosec // SQLite has no more pages
	}
	if p.log, err = os.Open(path + "-wal"); err == nil { //nolint:gosec // as above
		p.readLog()
	}
	return p, nil
}

func (p *pages) close() error {
	err := p.file.Close()
	if p.log != nil {
		err = errors.Join(err, p.log.Close())
	}
	return err
}

// Sizes in the log, in bytes.
const (
	logHeader   = 32
	frameHeader = 24
)

// readLog notes where the pages of complete transactions are in the log.
func (p *pages) readLog() {
	header := make([]byte, logHeader)
	if _, err := p.log.ReadAt(header, 0); err != nil {
		return
	}
	pending := make(map[uint32]int64)
	frame := make([]byte, frameHeader)
	for at := int64(logHeader); ; at += frameHeader + pageSize {
		if _, err := p.log.ReadAt(frame, at); err != nil || !bytes.Equal(frame[8:16], header[16:24]) {
			return // the end, or what an older log left
		}
		number := binary.BigEndian.Uint32(frame)
		pending[number] = at + frameHeader
		if binary.BigEndian.Uint32(frame[4:]) == 0 {
			continue // no commit yet
		}
		for number, at := range pending {
			p.logged[number] = at
			p.count = max(p.count, number)
		}
		clear(pending)
	}
}

// page returns a page; it is valid until the next call.
func (p *pages) page(number uint32) ([]byte, error) {
	var err error
	if at, ok := p.logged[number]; ok {
		_, err = p.log.ReadAt(p.buffer[:], at)
	} else {
		_, err = p.file.ReadAt(p.buffer[:], int64(number-1)*pageSize)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return p.buffer[:], err
}

// leaf is a page of the journal, with its first and last record.
type leaf struct {
	first, last uint64
	page        uint32
}

// leaves finds every page with records of the journal, the newest records first. Pages
// that cannot be read are skipped. When ctx ends, the rest is missing.
func (p *pages) leaves(ctx context.Context) []leaf {
	var all []leaf
	for n := uint32(1); n <= p.count && ctx.Err() == nil; n++ {
		page, err := p.page(n)
		if err != nil {
			continue
		}
		l := leaf{page: n}
		p.cells(page, func(r row) {
			seq := uint64(r.seq) //nolint:gosec // checked by record
			if l.first == 0 || seq < l.first {
				l.first = seq
			}
			l.last = max(l.last, seq)
		})
		if l.last > 0 {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b leaf) int {
		if a.last > b.last {
			return -1
		}
		return 1
	})
	return all
}

// rows returns the records of a leaf.
func (p *pages) rows(l leaf) (rows []row) {
	page, err := p.page(l.page)
	if err != nil {
		return nil
	}
	page = bytes.Clone(page) // overflow pages are read meanwhile
	p.cells(page, func(r row) { rows = append(rows, r) })
	return rows
}

// tableLeaf is the first byte of a page with rows.
const tableLeaf = 0x0d

// cells calls use for each record of the journal on a page. Anything that is not a
// record in every detail is skipped.
func (p *pages) cells(page []byte, use func(row)) {
	const header = 8
	if page[0] != tableLeaf {
		return
	}
	count := int(binary.BigEndian.Uint16(page[3:]))
	for i := range min(count, (pageSize-header)/2) {
		at := int(binary.BigEndian.Uint16(page[header+2*i:]))
		if at < header || at >= pageSize {
			continue
		}
		if r, ok := p.cell(page[at:]); ok {
			use(r)
		}
	}
}

// cell reads the row at the beginning of b.
func (p *pages) cell(b []byte) (row, bool) {
	size, n := varint(b)
	rowid, m := varint(b[n:])
	if n == 0 || m == 0 || size > maxRow {
		return row{}, false
	}
	payload, ok := p.payload(b[n+m:], int(size))
	if !ok {
		return row{}, false
	}
	return record(rowid, payload)
}

// maxRow bounds a row of the journal, in bytes; no sound one comes near it.
const maxRow = 1 << 20

// payload returns the payload of a row: the part in its page, and the rest on overflow
// pages.
func (p *pages) payload(b []byte, size int) ([]byte, bool) {
	const (
		most  = pageSize - 35
		least = (pageSize-12)*32/255 - 23
		next  = 4 // bytes of the number of the next page
	)
	if size <= most {
		if size > len(b) {
			return nil, false
		}
		return b[:size], true
	}
	local := least + (size-least)%(pageSize-next)
	if local > most {
		local = least
	}
	if local+next > len(b) {
		return nil, false
	}
	text := bytes.Clone(b[:local])
	for number := binary.BigEndian.Uint32(b[local:]); len(text) < size; {
		if number == 0 || number > p.count {
			return nil, false
		}
		page, err := p.page(number)
		if err != nil {
			return nil, false
		}
		text = append(text, page[next:min(pageSize, next+size-len(text))]...)
		number = binary.BigEndian.Uint32(page)
	}
	return text, true
}

// The columns of table journal: seq (the rowid, so NULL in the row), time, station,
// body, hash.
const (
	journalColumns = 5
	hashType       = 12 + 2*32 // a blob of 32 bytes
)

// record parses the payload of a row of the journal.
func record(rowid uint64, payload []byte) (row, bool) {
	size, n := varint(payload)
	if n == 0 || size < uint64(n) || size > uint64(len(payload)) { //nolint:gosec // n is small
		return row{}, false
	}
	types, values := payload[n:size], payload[size:]
	var kinds [journalColumns]uint64
	for i := range kinds {
		kind, n := varint(types)
		if n == 0 {
			return row{}, false
		}
		kinds[i], types = kind, types[n:]
	}
	const text = 13
	if len(types) != 0 || kinds[0] != 0 || kinds[3] < text || kinds[3]%2 == 0 || kinds[4] != hashType || rowid < 1 || rowid > 1<<62 {
		return row{}, false
	}
	r := row{seq: int64(rowid)} //nolint:gosec // checked above
	for i, into := range []*int64{&r.time, &r.station} {
		value, width, ok := integer(kinds[i+1], values)
		if !ok {
			return row{}, false
		}
		*into, values = value, values[width:]
	}
	length := (kinds[3] - text) / 2
	if uint64(len(values)) != length+uint64(len(r.hash)) {
		return row{}, false
	}
	r.body = string(values[:length])
	copy(r.hash[:], values[length:])
	prefix := `{"seq":` + strconv.FormatUint(rowid, 10) + ","
	return r, len(r.body) > len(prefix) && r.body[:len(prefix)] == prefix
}

// integer reads a column of a serial type for whole numbers.
func integer(kind uint64, b []byte) (value int64, width int, ok bool) {
	widths := []int{0, 1, 2, 3, 4, 6, 8}
	switch {
	case kind == 8 || kind == 9: // the numbers 0 and 1 themselves
		return int64(kind - 8), 0, true //nolint:gosec // 0 or 1
	case kind < 1 || kind >= uint64(len(widths)) || len(b) < widths[kind]:
		return 0, 0, false
	}
	width = widths[kind]
	value = int64(int8(b[0])) //nolint:gosec // the sign
	for _, c := range b[1:width] {
		value = value<<8 | int64(c)
	}
	return value, width, true
}

// varint reads a number of one to nine bytes; width is 0 if it is truncated.
func varint(b []byte) (value uint64, width int) {
	const longest = 9
	for i, c := range b[:min(len(b), longest)] {
		if i == longest-1 {
			return value<<8 | uint64(c), longest
		}
		value = value<<7 | uint64(c&0x7f)
		if c < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}
