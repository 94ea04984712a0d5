package tape

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// The protocol of network block devices, as far as the emulator needs it
// (https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md).
const (
	nbdMagic      = "NBDMAGICIHAVEOPT"
	nbdFixed      = 1 | 2 // fixed newstyle, no zeroes
	optExportName = 1
	optAbort      = 2
	optInfo       = 6
	optGo         = 7
	replyMagic    = 0x3e889045565a9
	repAck        = 1
	repInfo       = 3
	repUnknown    = 1<<31 | 1
	sendsFlush    = 1 | 4 | 64 // flags are valid, flush, write zeroes
	requestMagic  = 0x25609513
	answerMagic   = 0x67446698
	cmdRead       = 0
	cmdWrite      = 1
	cmdDisconnect = 2
	cmdFlush      = 3
	cmdZeroes     = 6
	maxRequest    = 64 << 20
	inputOutput   = 5  // EIO
	invalid       = 22 // EINVAL
)

func (t *Tape) accept(l net.Listener, disk int) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		t.mu.Lock()
		t.conns = append(t.conns, conn)
		t.mu.Unlock()
		t.serving.Go(func() {
			defer conn.Close()
			if greet(conn, t.disks[disk].size) == nil {
				_ = t.serve(conn, disk) // the emulator tells what it minds
			}
		})
	}
}

// greet agrees on the size of the disk and what it can do.
func greet(conn net.Conn, size int64) error {
	be := binary.BigEndian
	if _, err := conn.Write(be.AppendUint16([]byte(nbdMagic), nbdFixed)); err != nil {
		return err
	}
	var flags [4]byte
	if _, err := io.ReadFull(conn, flags[:]); err != nil {
		return err
	}
	for {
		var head [16]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		option, length := be.Uint32(head[8:]), int64(be.Uint32(head[12:]))
		if _, err := io.CopyN(io.Discard, conn, length); err != nil {
			return err
		}
		export := be.AppendUint16(be.AppendUint64(nil, uint64(size)), sendsFlush)
		var err error
		switch option {
		case optExportName:
			_, err = conn.Write(export)
			return err
		case optAbort:
			return errors.New("the client gave up")
		case optInfo, optGo:
			if err = reply(conn, option, repInfo, append([]byte{0, 0}, export...)); err == nil {
				err = reply(conn, option, repAck, nil)
			}
			if err != nil || option == optGo {
				return err
			}
		default:
			err = reply(conn, option, repUnknown, nil)
		}
		if err != nil {
			return err
		}
	}
}

func reply(w io.Writer, option, kind uint32, data []byte) error {
	be := binary.BigEndian
	head := be.AppendUint32(be.AppendUint32(be.AppendUint64(nil, replyMagic), option), kind)
	_, err := w.Write(append(be.AppendUint32(head, uint32(len(data))), data...))
	return err
}

// serve carries out one request after the other, so that their order is known.
func (t *Tape) serve(conn net.Conn, disk int) error {
	be := binary.BigEndian
	var head [28]byte
	for {
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		command, offset, length := be.Uint16(head[6:]), int64(be.Uint64(head[16:])), int64(be.Uint32(head[24:]))
		if be.Uint32(head[:]) != requestMagic || command != cmdZeroes && length > maxRequest {
			return fmt.Errorf("a request %x", head)
		}
		answer := append(be.AppendUint32(be.AppendUint32(nil, answerMagic), 0), head[8:16]...)
		var err error
		var data []byte
		switch command {
		case cmdRead:
			data = make([]byte, length)
			err = t.read(disk, data, offset)
		case cmdWrite:
			p := make([]byte, length)
			if _, err := io.ReadFull(conn, p); err != nil {
				return err
			}
			err = t.write(disk, p, offset, length)
		case cmdZeroes:
			err = t.write(disk, nil, offset, length)
		case cmdFlush:
			err = t.flush(disk)
		case cmdDisconnect:
			return nil
		default:
			be.PutUint32(answer[4:], invalid)
		}
		if errors.Is(err, errOff) {
			return err // the emulator gets no answer any more
		}
		if err != nil {
			be.PutUint32(answer[4:], inputOutput)
			data = nil
		}
		if _, err := conn.Write(append(answer, data...)); err != nil {
			return err
		}
	}
}
