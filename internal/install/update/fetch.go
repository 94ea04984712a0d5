package update

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/board/machine"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/site"
)

const (
	downloadName = "download"
	originName   = "download.json"

	// stallTimeout ends an answer of which less than leastBytes arrive in so long. A slow
	// link is no stall.
	stallTimeout = time.Minute
	leastBytes   = 8 << 10
	dialTimeout  = 30 * time.Second
	// longest is how long a download may take: what waits for its moment is not tried meanwhile.
	longest = 4 * time.Hour
	// fruitless is how often in a row an attempt may bring less than leastBytes, and how
	// often at all a download may begin anew, before it is given up: the card wears.
	fruitless  = 8
	firstRetry = time.Second
	lastRetry  = time.Minute

	// roomForDoors is what a download leaves free for the database and its journal, in bytes.
	roomForDoors = 64 << 20
)

// origin is what a partial download is of.
type origin struct {
	URL       updatefile.Sum `json:"url"`       // its SHA-256: it may hold a password
	Validator string         `json:"validator"` // an ETag or a date, "" for none
	Size      int64          `json:"size"`      // of the whole; -1 is unknown
}

// fetch is one download.
type fetch struct {
	u    *Updater
	url  *url.URL
	keys api.Keyring
	file *os.File
	have int64
	from origin

	anew   int // how often what was there was dropped
	judged bool
	limit  int64 // of bytes that may arrive
	until  time.Time
	shown  *progress
}

// fetch downloads an update whole, and continues a partial download of the same one.
func (u *Updater) fetch(ctx context.Context, address string, keys api.Keyring) (*medium, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, fault.New(fault.Invalid, "The address of the update cannot be read: write https://HOST/PATH") // the error has the address
	}
	d := &fetch{u: u, url: parsed, keys: keys, limit: updatefile.MaxSize, until: time.Now().Add(longest)}
	d.shown = u.phase(site.UpdateFetching, "")
	if err := d.open(sha256.Sum256([]byte(address))); err != nil {
		return nil, fault.Wrap(fault.Unavailable, "The download cannot be kept in "+u.Folder, err)
	}
	d.shown.at(d.have, d.from.Size) // an answer may take minutes
	had := d.whole()
	err = d.run(ctx)
	if err != nil && ctx.Err() == nil && had && d.whole() && !fault.Is(err, fault.Invalid) { // the server has nothing newer to say
		err = d.judge()
	}
	if err != nil {
		err = errors.Join(err, d.file.Close())
		if fault.Is(err, fault.Invalid) {
			err = errors.Join(err, u.dropDownload())
		}
		return nil, err
	}
	return &medium{File: d.file, size: d.have, fetched: u.dropDownload}, nil
}

// dropDownload removes a download.
func (u *Updater) dropDownload() error {
	var failed error
	for _, name := range []string{originName, downloadName} {
		if err := os.Remove(u.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// open opens what was downloaded before, which is nothing where it is of another address.
func (d *fetch) open(sum updatefile.Sum) (err error) {
	text, _ := os.ReadFile(d.u.path(originName)) // without it, all begins anew
	if json.Unmarshal(text, &d.from) != nil || d.from.URL != sum {
		d.from = origin{URL: sum, Size: -1}
	}
	if d.file, err = os.OpenFile(d.u.path(downloadName), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if d.from.Size < 0 {
		return d.file.Truncate(0)
	}
	info, err := d.file.Stat()
	if err == nil {
		d.have = info.Size()
	}
	return err
}

// run fetches until all is there. An attempt that brought something is followed by
// another; several that brought nothing are the end.
func (d *fetch) run(ctx context.Context) error {
	wait := firstRetry
	for failures := 0; ; {
		before := d.have
		err := d.attempt(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err == nil || fault.KindOf(err) != fault.Internal || d.whole():
			return err
		case d.have-before >= leastBytes:
			failures, wait = 0, firstRetry
		}
		d.u.Log.Info("a download was interrupted", "bytes", d.have, "err", cause(err))
		if failures++; failures == fruitless || d.anew >= fruitless {
			return fault.Wrap(fault.Unavailable, fmt.Sprintf("%s does not deliver the update (%s): try again, which continues at %s", d.url.Host, cause(err), machine.Size(d.have)), errors.New(cause(err)))
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, lastRetry)
	}
}

// attempt is one request. Errors without a kind are worth another one.
func (d *fetch) attempt(ctx context.Context) error {
	ctx, late := context.WithDeadlineCause(ctx, d.until, errSlow)
	defer late()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	defer stall.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url.String(), http.NoBody)
	if err != nil {
		return fault.New(fault.Invalid, "The address of the update cannot be read: write https://HOST/PATH")
	}
	request.Header.Set("User-Agent", "gatehouse-update")
	request.Header.Set("Accept-Encoding", "identity")
	d.condition(request.Header)
	client := &http.Client{Transport: d.transport(), CheckRedirect: redirect}
	response, err := client.Do(request)
	if err != nil {
		return d.unreachable(ctx, err)
	}
	defer func() { _ = response.Body.Close(); client.CloseIdleConnections() }()
	if err := d.begin(response); err != nil {
		return err
	}
	return d.receive(ctx, response.Body, stall)
}

// condition asks for what is missing. Of a download that is whole it asks for a newer one.
func (d *fetch) condition(h http.Header) {
	switch {
	case d.have > 0 && !d.whole():
		h.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		if d.from.Validator != "" {
			h.Set("If-Range", d.from.Validator)
		}
	case d.whole() && strings.HasPrefix(d.from.Validator, `"`):
		h.Set("If-None-Match", d.from.Validator)
	case d.whole() && d.from.Validator != "":
		h.Set("If-Modified-Since", d.from.Validator)
	}
}

// whole reports whether all of the file was downloaded.
func (d *fetch) whole() bool { return d.have > 0 && d.have == d.from.Size }

// begin reads the head of an answer: where its bytes go, and how many there are.
func (d *fetch) begin(response *http.Response) error {
	status := response.StatusCode
	switch {
	case status == http.StatusPartialContent && d.have > 0:
		start, whole, err := contentRange(response.Header.Get("Content-Range"))
		if err == nil && (start != d.have || whole != d.from.Size) {
			err = errors.New("it continues another file")
		}
		if err != nil {
			return errors.Join(err, d.restart())
		}
		return nil
	case status == http.StatusNotModified && d.whole():
		return nil
	case status == http.StatusRequestedRangeNotSatisfiable && d.have > 0:
		return errors.Join(errors.New("it has fewer bytes now"), d.restart())
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return fmt.Errorf("it answers with status %d", status)
	case status != http.StatusOK:
		return fault.New(fault.Invalid, fmt.Sprintf("%s answers with status %d: is the address right?", d.url.Host, status))
	}
	if err := d.restart(); err != nil {
		return err
	}
	d.from.Size, d.from.Validator = response.ContentLength, validator(response.Header)
	if d.from.Size > d.limit {
		return errHuge(d.url.Host, d.limit)
	}
	if err := d.room(max(d.from.Size, 0)); err != nil {
		return err
	}
	text, err := json.Marshal(d.from)
	if err == nil {
		err = durable.Write(d.u.path(originName), text, 0o600)
	}
	return unkept(err)
}

func errHuge(host string, limit int64) error {
	return fault.New(fault.Invalid, fmt.Sprintf("What %s delivers has more than %s, so it is not the update: is the address right?", host, machine.Size(limit)))
}

func unkept(err error) error {
	return fault.Wrap(fault.Unavailable, "The download cannot be kept: is the disk full?", err)
}

// validator returns what identifies this state of the file, for If-Range (RFC 9110,
// section 13.1.5): a strong ETag, or a date.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

// contentRange reads "bytes 100-199/200".
func contentRange(text string) (start, whole int64, err error) {
	text, bytes := strings.CutPrefix(text, "bytes ")
	from, rest, _ := strings.Cut(text, "-")
	_, total, _ := strings.Cut(rest, "/")
	start, err = strconv.ParseInt(from, 10, 64)
	if err == nil {
		whole, err = strconv.ParseInt(total, 10, 64)
	}
	if err != nil || !bytes {
		return 0, 0, errors.New("its range cannot be read")
	}
	return start, whole, nil
}

// restart forgets what was downloaded.
func (d *fetch) restart() error {
	if d.have > 0 {
		d.anew++
	}
	d.have, d.judged, d.limit, d.from.Size, d.from.Validator = 0, false, updatefile.MaxSize, -1, ""
	return unkept(d.file.Truncate(0))
}

// room refuses a download that would leave too little for the doors.
func (d *fetch) room(more int64) error {
	room, err := durable.RoomAt(d.u.Folder)
	if err != nil {
		return unkept(err)
	}
	if free := room.Free - more; free < roomForDoors {
		return fault.New(fault.Unavailable, fmt.Sprintf(
			"There is no room for the download: it needs %s besides the %s that doors need, and %s are free; make room on the disk of %s, or update from a USB stick",
			machine.Size(more), machine.Size(roomForDoors), machine.Size(room.Free), d.u.Folder))
	}
	return nil
}

// receive keeps the body of an answer.
func (d *fetch) receive(ctx context.Context, body io.Reader, stall *time.Timer) error {
	buffer, fresh, fed := make([]byte, 64<<10), int64(0), d.have
	for {
		n, err := body.Read(buffer)
		if now := d.have + int64(n); now-fed >= leastBytes || n > 0 && now == d.from.Size {
			fed = now
			stall.Reset(stallTimeout)
		}
		if e := d.keep(buffer[:n]); e != nil {
			return e
		}
		if fresh += int64(n); fresh >= durable.FlushSize {
			e := unkept(durable.Flush(d.file, d.have-fresh, fresh))
			if e == nil {
				e = d.room(0)
			}
			if e != nil {
				return e
			}
			fresh = 0
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && (d.from.Size < 0 || d.have == d.from.Size):
			d.from.Size = d.have
			return d.judge()
		default:
			return d.broken(ctx, err)
		}
	}
}

// keep writes what has arrived, and judges the manifest once it is there.
func (d *fetch) keep(b []byte) error {
	if d.have+int64(len(b)) > d.limit {
		return errHuge(d.url.Host, d.limit)
	}
	if _, err := d.file.WriteAt(b, d.have); err != nil {
		return unkept(err)
	}
	d.have += int64(len(b))
	d.shown.at(d.have, d.from.Size)
	if !d.judged && d.have >= int64(updatefile.HeadSize) {
		return d.judge()
	}
	return nil
}

// judge refuses an update by its manifest, before the rest of it is fetched.
func (d *fetch) judge() error {
	d.judged = true
	f, err := updatefile.Peek(d.file, d.keys)
	if err == nil && d.from.Size >= 0 {
		f, err = updatefile.Open(d.file, d.from.Size, d.keys)
	}
	if err != nil {
		return err
	}
	d.limit = f.Size()
	d.shown.version = f.Manifest.Version
	return d.u.judge(f.Manifest)
}
