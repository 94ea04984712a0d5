package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"unicode/utf16"
)

// The store of variables in the flash of the emulated machine. (EDK II,
// AuthenticatedVariableFormat.h: a firmware volume with a store of variables, of which each begins
// with 0x55aa and its state.)
const (
	volumeHeader, storeHeader, header = 0x48, 28, 60
	added, inDeletion                 = 0x3f, 0x3e
)

// firmwareVariable returns a text among the variables in the emulated machine's flash, ""
// if it is not there.
func firmwareVariable(from io.ReaderAt, name string) (string, error) {
	store := make([]byte, 0x40000)
	if _, err := from.ReadAt(store, 0); err != nil {
		return "", err
	}
	le := binary.LittleEndian
	if string(store[0x28:0x2c]) != "_FVH" {
		// The firmware of the emulator erases all of it to change a bit back (VirtNorFlashDxe),
		// and begins anew after a power cut there.
		return "", nil
	}
	value := ""
	for at := volumeHeader + storeHeader; at+header < len(store) && le.Uint16(store[at:]) == 0x55aa; {
		nameSize, size := int(le.Uint32(store[at+36:])), int(le.Uint32(store[at+40:]))
		if nameSize < 0 || size < 0 || at+header+nameSize+size > len(store) {
			break
		}
		this := text16(store[at+header : at+header+nameSize])
		if state := store[at+2]; this == name && (state == added || state == inDeletion && value == "") {
			value = text16(store[at+header+nameSize : at+header+nameSize+size])
		}
		at = (at + header + nameSize + size + 3) &^ 3
	}
	return value, nil
}

// formatted is how the flash begins that the firmware has erased and formatted: the headers of the
// volume, of 768 KiB, and of the store.
const formatted = "000000000000000000000000000000008d2bf1ff96768b4ca9852747075b4f5000000c00000000005f465648360e00004800f8f8" +
	"00000002000100000000040000000000000000" + "00782cf3aa7b949a43a1802e144ec37792b8ff03005afe000000000000"

// setFirmwareVariable formats the flash of a machine that was never on, as its firmware would at
// the first start, and puts a text there: for the boot loader and for the system.
func setFirmwareVariable(flash, name, value string) error {
	le := binary.LittleEndian
	encode := func(text string) (raw []byte) {
		for _, unit := range append(utf16.Encode([]rune(text)), 0) {
			raw = le.AppendUint16(raw, unit)
		}
		return raw
	}
	record := append([]byte{0xaa, 0x55, added, 0}, le.AppendUint32(nil, 1|2|4)...)
	record = append(record, make([]byte, 8+16+4)...) // no count, time or key: it is not authenticated
	record = le.AppendUint32(le.AppendUint32(record, uint32(len(encode(name)))), uint32(len(encode(value))))
	record = append(record, 0x82, 0xb0, 0x67, 0x4a, 0x4c, 0x0a, 0xcf, 0x41, 0xb6, 0xc7, 0x44, 0x0b, 0x29, 0xbb, 0x8c, 0x4f) // the boot loader's
	record = append(append(record, encode(name)...), encode(value)...)
	begin, err := hex.DecodeString(formatted)
	if err != nil || len(begin) != volumeHeader+storeHeader {
		return fmt.Errorf("%d bytes are no headers: %w", len(begin), err)
	}
	record = append(begin, record...)
	file, err := os.OpenFile(flash, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err = file.Write(append(record, bytes.Repeat([]byte{0xff}, 768<<10-len(record))...)); err != nil {
		return err
	}
	got, err := firmwareVariable(file, name)
	if err == nil && got != value {
		err = fmt.Errorf("%s has %q as %s", flash, got, name)
	}
	return err
}

func text16(raw []byte) string {
	var units []uint16
	for ; len(raw) >= 2; raw = raw[2:] {
		if unit := binary.LittleEndian.Uint16(raw); unit != 0 {
			units = append(units, unit)
		}
	}
	return string(utf16.Decode(units))
}
