package adminapi

import (
	"cmp"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"gatehouse/internal/board/updates"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// maxUpload is the largest update that is uploaded, in bytes.
const maxUpload = 512 << 20

// Updates asks root for updates of the system; package updates satisfies it. Safe for
// concurrent use.
type Updates interface {
	// Status returns how updates stand. Quick.
	Status() site.UpdateStatus
	// Check returns why an order would be refused now; nil where it would not.
	Check(o updates.Order) error
	// Request records that by asks for an update, and asks root for it.
	Request(by site.Actor, o updates.Order) (site.CommandID, error)
}

// Uploads keeps the one update that was uploaded; package gateway satisfies it. Store is
// called once at a time.
type Uploads interface {
	// Store writes what it reads to the end; of size bytes, or -1 where that is not known.
	// After an error nothing is left.
	Store(content io.Reader, size int64) error
	// Discard removes what was stored.
	Discard()
}

// upload is the upload under way.
type upload struct {
	sync.Mutex              // held by it
	size, got  atomic.Int64 // bytes; size is 0 where there is none
}

// counted counts what arrives.
type counted struct {
	io.Reader
	got *atomic.Int64
}

// Read implements [io.Reader].
func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.got.Add(int64(n))
	return n, err
}

// updateRoutes returns the part of the table that is about updates of the system.
func (a *API) updateRoutes() []kit.Route {
	const get, post, put, accepted = http.MethodGet, http.MethodPost, http.MethodPut, http.StatusAccepted
	return []kit.Route{
		{Method: get, Pattern: "/update", Serve: a.brief(http.StatusOK, a.showUpdate)},
		{Method: post, Pattern: "/update", Serve: a.brief(accepted, reads(a.startUpdate)), JSON: true},
		{Method: put, Pattern: "/update/file", Serve: a.uploadUpdate, Upload: true, MaxBody: maxUpload},
		{Method: post, Pattern: "/update/rollback", Serve: a.brief(accepted, a.rollBack)},
		{Method: post, Pattern: "/update/withdraw", Serve: a.brief(accepted, a.withdraw)},
	}
}

func (a *API) showUpdate(*request) (any, error) { return a.update(), nil }

// update returns how updates stand. An upload is being fetched for everyone who looks.
func (a *API) update() Update {
	status := a.Updates.Status()
	if size := a.upload.size.Load(); size > 0 {
		status.Phase, status.Percent, status.Target = site.UpdateFetching, int(min(a.upload.got.Load()*100/size, 100)), ""
	}
	return Update{UpdateStatus: status, Sentences: status.Sentences(a.Zone())}
}

func (a *API) startUpdate(r *request, in NewUpdate) (any, error) {
	if in.URL == "" {
		return nil, fault.New(fault.Invalid, "Choose a file, or state the https address of an update")
	}
	err := a.request(r.Actor, updates.Order{URL: in.URL, SHA256: in.SHA256, At: in.At.Time})
	return a.update(), err
}

func (a *API) rollBack(r *request) (any, error) {
	err := a.request(r.Actor, updates.Order{Rollback: true})
	return a.update(), err
}

func (a *API) withdraw(r *request) (any, error) {
	err := a.request(r.Actor, updates.Order{Withdraw: true})
	return a.update(), err
}

// request asks for an update, unless by is no longer an administrator when root is asked.
func (a *API) request(by site.Actor, o updates.Order) error {
	o.Permitted = func() bool { return a.Access.Lives(by) }
	_, err := a.Updates.Request(by, o)
	return err
}

// uploadUpdate takes an update that a browser sends, and asks root for it when it is
// whole.
func (a *API) uploadUpdate(x *kit.Exchange) error {
	order, err := uploadOrder(x)
	if err == nil {
		err = a.Updates.Check(order)
	}
	if err == nil && x.Req.ContentLength == 0 {
		err = fault.New(fault.Invalid, "The file is empty")
	}
	if err != nil {
		return err
	}
	if !a.upload.TryLock() {
		return fault.Throttle("An update is being uploaded already", retry)
	}
	var stored atomic.Bool
	if err := x.Receive(func(content io.Reader) error {
		defer a.upload.Unlock()
		a.upload.got.Store(0)
		a.upload.size.Store(cmp.Or(max(x.Req.ContentLength, 0), maxUpload))
		defer a.upload.size.Store(0)
		err := a.Uploads.Store(counted{content, &a.upload.got}, x.Req.ContentLength)
		stored.Store(err == nil)
		return err
	}); err != nil {
		if stored.Load() {
			a.Uploads.Discard()
		}
		return err
	}
	if err := a.request(x.Req.Actor, order); err != nil {
		a.Uploads.Discard()
		return err
	}
	return x.Encode(http.StatusAccepted, a.update())
}

// uploadOrder reads the query of an upload.
func uploadOrder(x *kit.Exchange) (o updates.Order, err error) {
	o.File = true
	query := x.Req.URL.Query()
	stated := query["at"]
	if len(query) > 1 || len(query) == 1 && len(stated) != 1 {
		return o, fault.New(fault.Invalid, `The query knows "at", once`)
	}
	if len(stated) == 1 && stated[0] != "" {
		if o.At, err = parseTime(stated[0]); err != nil {
			err = fault.New(fault.Invalid, `"at" is a time like 2026-01-01T00:00:00Z`)
		}
	}
	return o, err
}
