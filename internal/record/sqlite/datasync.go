package sqlite

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// dataSync is the name of a VFS of SQLite. It is unix-excl with two differences. A commit waits
// until the data of SQLite's log is on the disk, but not the times of that file (fdatasync
// in place of fsync). SQLite does so itself where it is built with HAVE_FDATASYNC, which the
// driver is not. For the times, ext4 writes 12 KB and waits for the disk again; mounted with
// lazytime, it now does neither. And a quota that is used up is a full disk.
const dataSync = "unix-excl-datasync"

// logSync is that VFS. SQLite keeps the addresses of vfs and methods, so these have to stay
// where they are.
var logSync struct { //nolint:gochecknoglobals // as SQLite's list of VFSs, of the whole process
	registered sync.Once
	unix       uintptr // the address of unix-excl
	vfs        sqlite3.Tsqlite3_vfs
	sync       func(fd int) error

	opened              sync.Once // guards the rest, which the first log sets
	methods             sqlite3.Tsqlite3_io_methods
	unixSync, unixWrite uintptr // the addresses of the xSync and xWrite of unix-excl
}

// useDataSync makes dataSync known to SQLite. Where it cannot, opening a database fails, as
// there is no such VFS.
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

// openDataSync is the method xOpen: that of unix-excl, then a log gets another xSync. unix-excl
// is given itself as the VFS, because it decides by the name.
func openDataSync(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	open := function[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](at[sqlite3.Tsqlite3_vfs](logSync.unix).FxOpen)
	rc := open(tls, logSync.unix, name, file, flags, outFlags)
	if rc == sqlite3.SQLITE_OK && flags&sqlite3.SQLITE_OPEN_WAL != 0 {
		f := at[sqlite3.TunixFile](file)
		logSync.opened.Do(func() {
			logSync.methods = *at[sqlite3.Tsqlite3_io_methods](f.FpMethod)
			logSync.unixSync, logSync.methods.FxSync = logSync.methods.FxSync, address(syncData)
			logSync.unixWrite, logSync.methods.FxWrite = logSync.methods.FxWrite, address(writeData)
		})
		f.FpMethod = addressOf(&logSync.methods)
	}
	return rc
}

// syncData is the method xSync of a log. The first after an open is left to unix-excl, which
// also syncs the folder.
func syncData(tls *libc.TLS, file uintptr, flags int32) int32 {
	f := at[sqlite3.TunixFile](file)
	if f.FctrlFlags&sqlite3.UNIXFILE_DIRSYNC != 0 {
		return function[func(*libc.TLS, uintptr, int32) int32](logSync.unixSync)(tls, file, flags)
	}
	if err := logSync.sync(int(f.Fh)); err != nil {
		return sqlite3.SQLITE_IOERR_FSYNC
	}
	return sqlite3.SQLITE_OK
}

// writeData is the method xWrite of a log. SQLite knows ENOSPC alone as that of a full disk; a quota
// that is used up is one too.
func writeData(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	rc := function[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](logSync.unixWrite)(tls, file, data, size, offset)
	if rc == sqlite3.SQLITE_IOERR_WRITE && at[sqlite3.TunixFile](file).FlastErrno == int32(unix.EDQUOT) {
		return sqlite3.SQLITE_FULL
	}
	return rc
}

// at returns what SQLite has at an address. addressOf returns the address of a global variable.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) } //nolint:gosec // not Go's memory

func addressOf[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) } //nolint:gosec // of a global variable

// address and function translate a function to SQLite's form and back, as the driver does.
// It must be one of a package, no closure.
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) } //nolint:gosec // see above

func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) } //nolint:gosec // see above
