package sqlite

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// dataSync is the name of SQLite's file system unix-excl with one difference: a commit
// syncs what its log holds, without the times of the file (fdatasync). SQLite does so itself
// where it is built with HAVE_FDATASYNC, which the driver is not. The times alone made the
// file system write a transaction of its own for each commit: 12 KB more to the card, and a
// second wait for it.
const dataSync = "unix-excl-datasync"

// logSync is the file system dataSync. SQLite keeps the addresses of vfs and methods.
var logSync struct { //nolint:gochecknoglobals // as SQLite's registry of file systems, of the whole process
	registered sync.Once
	unix       uintptr // the address of SQLite's own
	vfs        sqlite3.Tsqlite3_vfs
	sync       func(fd int) error

	opened  sync.Once                   // guards the rest, which the first log sets
	log     sqlite3.Tsqlite3_io_methods // of a log of SQLite's own
	methods sqlite3.Tsqlite3_io_methods
}

// useDataSync makes dataSync known to SQLite. Without it, opening a database fails.
func useDataSync() {
	logSync.registered.Do(func() {
		tls := libc.NewTLS() // for the life of the process, as what is allocated here
		name, _ := libc.CString("unix-excl")
		if logSync.unix = sqlite3.Xsqlite3_vfs_find(tls, name); logSync.unix == 0 {
			return
		}
		logSync.vfs, logSync.sync = *at[sqlite3.Tsqlite3_vfs](logSync.unix), unix.Fdatasync
		logSync.vfs.FzName, _ = libc.CString(dataSync)
		logSync.vfs.FxOpen = address(openDataSync)
		sqlite3.Xsqlite3_vfs_register(tls, addressOf(&logSync.vfs), 0)
	})
}

// openDataSync is the method xOpen: SQLite's own, but for what a log does at a commit.
// It goes by the name of its first argument.
func openDataSync(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	open := function[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](at[sqlite3.Tsqlite3_vfs](logSync.unix).FxOpen)
	rc := open(tls, logSync.unix, name, file, flags, outFlags)
	if rc == sqlite3.SQLITE_OK && flags&sqlite3.SQLITE_OPEN_WAL != 0 {
		f := at[sqlite3.TunixFile](file)
		logSync.opened.Do(func() {
			logSync.log = *at[sqlite3.Tsqlite3_io_methods](f.FpMethod)
			logSync.methods = logSync.log
			logSync.methods.FxSync = address(syncData)
		})
		f.FpMethod = addressOf(&logSync.methods)
	}
	return rc
}

// syncData is the method xSync of a log. The first of a new log also syncs its folder, which
// SQLite's own does.
func syncData(tls *libc.TLS, file uintptr, flags int32) int32 {
	f := at[sqlite3.TunixFile](file)
	if f.FctrlFlags&sqlite3.UNIXFILE_DIRSYNC != 0 {
		return function[func(*libc.TLS, uintptr, int32) int32](logSync.log.FxSync)(tls, file, flags)
	}
	if err := logSync.sync(int(f.Fh)); err != nil {
		return sqlite3.SQLITE_IOERR_FSYNC
	}
	return sqlite3.SQLITE_OK
}

// at returns what is at an address of SQLite's memory, and addressOf the address of what stays
// where it is.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) } //nolint:gosec // not Go's memory

func addressOf[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) } //nolint:gosec // of a global variable

// address and function translate a function of a package to SQLite's form and back, as the
// driver does.
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) } //nolint:gosec // see above

func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) } //nolint:gosec // see above
