package gatewaytest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"gatehouse/internal/test/need"
)

// Disk is an ext4 file system on a disk that records every write and every flush that
// reaches it, so that a test can look at what a power cut at each of them would have
// left. It exists only inside [InNamespaces]; a test calls [NeedDisk] first.
type Disk struct {
	Dir string // where the file system is mounted

	t    testing.TB
	file *diskFile
}

// diskSize is the size of a disk, in bytes.
const diskSize = 24 << 20

// NeedDisk needs what a [Disk] does: root itself may mount file systems of disks, and no
// other user of a namespace.
func NeedDisk(t testing.TB) {
	t.Helper()
	need.Root(t)
	need.Program(t, "mke2fs")
}

// NewDisk makes an empty file system and mounts it. It records nothing before
// [Disk.Record].
func NewDisk(t testing.TB) *Disk {
	t.Helper()
	dir := t.TempDir()
	d := &Disk{t: t, Dir: filepath.Join(dir, "disk"), file: &diskFile{content: make([]byte, diskSize)}}
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, d.file.content, 0o600); err != nil {
		t.Fatal(err)
	}
	runProgram(t, "mke2fs", "-q", "-t", "ext4", "-F", "-J", "size=4", "-E", "lazy_itable_init=0", image)
	content, err := os.ReadFile(image) //nolint:gosec // just made
	if err != nil {
		t.Fatal(err)
	}
	d.file.content = content
	behind := filepath.Join(dir, "behind")
	for _, name := range []string{behind, d.Dir} {
		if err := os.Mkdir(name, 0o755); err != nil { //nolint:gosec // for the service's user too
			t.Fatal(err)
		}
	}
	server, err := fs.Mount(behind, &diskRoot{file: d.file}, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, FsName: "disk", MaxWrite: 128 << 10,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Unmount() })
	mountLoop(t, filepath.Join(behind, "disk"), d.Dir)
	return d
}

// Record forgets what was recorded and records from now on.
func (d *Disk) Record() {
	runProgram(d.t, "sync", "-f", d.Dir)
	d.file.mu.Lock()
	defer d.file.mu.Unlock()
	d.file.base, d.file.log, d.file.recording = slices.Clone(d.file.content), nil, true
}

// PowerCut is what a power cut leaves.
type PowerCut struct {
	After int  // so many writes and flushes had reached the disk
	Kept  bool // the disk kept what it was not told to flush

	file *diskFile
}

// Cuts ends the recording and returns what a power cut after each write and each
// flush would have left: on a disk that loses all that was not flushed, and on one that
// loses none of it. States that are the same come once.
func (d *Disk) Cuts() []PowerCut {
	d.file.mu.Lock()
	defer d.file.mu.Unlock()
	d.file.recording = false
	cuts := []PowerCut{{file: d.file}}
	dirty := false
	for i, e := range d.file.log {
		if e.data != nil || dirty {
			cuts = append(cuts, PowerCut{After: i + 1, Kept: e.data != nil, file: d.file})
		}
		dirty = e.data != nil
	}
	return cuts
}

// image is the content of the disk after the power cut.
func (c PowerCut) image() []byte {
	c.file.mu.Lock()
	defer c.file.mu.Unlock()
	events := c.file.log[:c.After]
	for !c.Kept && len(events) > 0 && events[len(events)-1].data != nil {
		events = events[:len(events)-1]
	}
	content := slices.Clone(c.file.base)
	for _, e := range events {
		copy(content[e.offset:], e.data)
	}
	return content
}

// Mount mounts what the power cut left, as the start of the board does, calls look
// with its folder, and unmounts it.
func (c PowerCut) Mount(t testing.TB, look func(dir string)) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "cut") //nolint:usetesting // one for each of many
	if err != nil {
		t.Fatal(err)
	}
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	if err := os.WriteFile(image, c.image(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at, 0o755); err != nil { //nolint:gosec // for the service's user too
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(image) }()
	runProgram(t, "mount", "-t", "ext4", "-o", "loop", image, at)
	defer runProgram(t, "umount", at)
	look(at)
}

// mountLoop mounts an image; the mount ends with the test.
func mountLoop(t testing.TB, image, at string) {
	t.Helper()
	runProgram(t, "mount", "-t", "ext4", "-o", "loop", image, at)
	t.Cleanup(func() { _ = exec.Command("umount", "-l", at).Run() }) //nolint:noctx,gosec // ends at once
}

// diskFile is the content of a disk with what has reached it.
type diskFile struct {
	fs.Inode

	mu        sync.Mutex // guards what follows
	content   []byte
	base      []byte // when the recording began
	recording bool
	log       []diskEvent
}

// diskEvent is a write, or with no data a flush.
type diskEvent struct {
	offset int64
	data   []byte
}

// diskRoot is the folder that holds the file of the disk.
type diskRoot struct {
	fs.Inode
	file *diskFile
}

// OnAdd implements [fs.NodeOnAdder].
func (r *diskRoot) OnAdd(ctx context.Context) {
	r.AddChild("disk", r.NewPersistentInode(ctx, r.file, fs.StableAttr{Mode: syscall.S_IFREG}), true)
}

// Getattr implements [fs.NodeGetattrer].
func (f *diskFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o600, uint64(len(f.content))
	return 0
}

// Setattr implements [fs.NodeSetattrer].
func (f *diskFile) Setattr(ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return f.Getattr(ctx, h, out)
}

// Open implements [fs.NodeOpener].
func (f *diskFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Read implements [fs.NodeReader].
func (f *diskFile) Read(_ context.Context, _ fs.FileHandle, dest []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := copy(dest, f.content[min(offset, int64(len(f.content))):])
	return fuse.ReadResultData(dest[:n]), 0
}

// Write implements [fs.NodeWriter].
func (f *diskFile) Write(_ context.Context, _ fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if offset+int64(len(data)) > int64(len(f.content)) {
		return 0, syscall.ENOSPC
	}
	copy(f.content[offset:], data)
	if f.recording {
		f.log = append(f.log, diskEvent{offset, bytes.Clone(data)})
	}
	return uint32(len(data)), 0 //nolint:gosec // MaxWrite bounds it
}

// Fsync implements [fs.NodeFsyncer].
func (f *diskFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.recording {
		f.log = append(f.log, diskEvent{})
	}
	return 0
}
