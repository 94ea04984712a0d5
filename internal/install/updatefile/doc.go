// Package updatefile is the file that carries a version of the image to boards with two
// slots: `gatehouse_VERSION_arm64.update`. It writes and signs one when a release is made
// (scripts/release), and reads and verifies one on a board (package update, which decides
// whether the board takes it). It knows files and keys, and nothing of disks.
//
// An update file is
//
//	gatehouse-update 1
//	<kid> <base64 of an Ed25519 signature>        1 to 4 such lines
//	manifest <length of the manifest in bytes>
//	<manifest, JSON>
//	<the parts, in the order of the manifest>
//
// with one line feed at the end of each line, no gaps and nothing behind the last part.
// What is signed is the first line with its line feed and the manifest ([Manifest]),
// which has the size and the SHA-256 of every part: so the signature covers all of the
// file. The parts are the kernel, the initrd, the two entries of the boot loader, with
// @SLOT@ in place of the letter of the slot, and the root file system, as one zstd stream
// with a window of at most 8 MiB. The same input makes the same bytes.
//
// Promises. Nothing but the first lines is interpreted before a trusted key has verified the
// manifest. Whatever the file claims, reading it takes memory for one manifest, one
// window and one buffer. Every refusal is one sentence that says what to do, and its kind
// is Invalid: of what is no update file, is unsigned, is signed with an unknown key, was
// changed, cut off or lengthened. The order of refusals is: what it is, who signed it,
// whether it is whole.
package updatefile
