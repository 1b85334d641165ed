# SPDX-License-Identifier: Apache-2.0
"""A second reader of HN4 volumes. It was written from the description of the format alone and shares nothing with storage/hn4.
It returns what the reference implementation returns, and `violations` checks section 8 of the description field by field. It is
simple and slow."""
import os
import struct
import zlib

MASK = (1 << 64) - 1
PROFILES = ((4096, 2 << 20), (16384, 65536), (64 << 20, 64 << 20), (64 << 20, 64 << 20), (512, 512), (4096, 2 << 20),
            (65536, 65536), (65536, 1 << 20))
AI, ARCHIVE, PICO, SYSTEM = 2, 3, 4, 5
JUMPS = (0, 1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66, 78, 91, 105, 120)
VALID, TOMBSTONE, HORIZON, COMPRESSED, ENCRYPTED, EXTENDED = (1 << b for b in (8, 9, 17, 19, 20, 23))
WORDS = (
    '{"id":|http://|https://|error|false|true|null|value|timestamp| <div class="|background|function|return|success|'
    'jsonrpc|application|":"|","|{"name":|{"type":|content-type|authorization|bearer |user-agent|response|status|'
    'message|token|created_at|updated_at|const |struct |localhost|127.0.0.1|192.168.|[INFO] |[WARN] |[ERROR] |[DEBUG] |'
    'exception|stacktrace|undefined|timeout|connection|database|server|client|password|00000000|ffffff|'
    '0000000000000000|FFFFFFFFFFFFFFFF|\\u00|0x|class |import |public |private |void |string|uint64_t|uint32_t|'
    '<tbody>|</span>').encode().split(b"|")


class Refused(Exception):
    """A negative result code of the reference implementation."""

    def __init__(self, code):
        super().__init__(f"-0x{-code:X}")
        self.code = code


def up(value, unit):
    """Rounds up to a multiple of `unit`."""
    return -(-value // unit) * unit


def blank(data):
    """Returns whether all bytes are zero. Comparing is many times faster than `any`, and blocks may have 64 MiB."""
    return data == bytes(len(data))


def tag_mask(tag):
    """Returns the filter of a tag: three bits for each part between "/" and ":"."""
    mask = 0
    for piece in tag.replace(b"/", b"\0").replace(b":", b"\0").split(b"\0"):
        if piece:
            h = 0xCBF29CE484222325
            for byte in piece:
                h = (h ^ byte) * 0x100000001B3 & MASK
            mask |= 1 << (h & 63) | 1 << (h >> 21 & 63) | 1 << (h >> 42 & 63)
    return mask


def ecc(word):
    """Returns the check byte of a word of the bitmap."""
    h = 0
    for i, mask in enumerate((0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x00FF00FF00FF00FF,
                              0x0000FFFF0000FFFF, 0x00000000FFFFFFFF)):
        h |= (bin(word & mask).count("1") & 1) << i
    parity = (bin(word).count("1") ^ bin(h).count("1")) & 1
    return (h | word >> 63 << 6) << 1 & 0xFF | parity


def unpack_tokens(data, limit):
    """Decodes a compressed payload. Raises ValueError where the reference implementation reports data rot."""
    out, at = bytearray(), 0

    def take(count):
        nonlocal at
        if count > len(data) - at:
            raise ValueError
        at += count
        return data[at - count:at]

    def longer(length):
        while True:
            more = take(1)[0]
            length += more
            if length > 8223:
                raise ValueError
            if more != 255:
                return length

    while at < len(data):
        token = take(1)[0]
        kind, length = token & 0xC0, token & 0x3F
        if token == 0:
            made = special(take, longer, out)
        else:
            if length == 63:
                length = longer(length)
            made = plain(kind, length, take)
        if len(made) > limit - len(out):
            raise ValueError
        out += made
    return bytes(out)


def special(take, longer, out):
    """Decodes a token of kind 0: a word of the dictionary, or bytes predicted from those before them."""
    which = take(1)[0]
    if which == 1:
        index = take(1)[0]
        if index > 63:
            raise ValueError
        return WORDS[index]
    if which != 2:
        raise ValueError
    stride = take(1)[0]
    length = longer(0)
    if not 0 < stride <= min(len(out), length):
        raise ValueError
    made = bytearray(out)
    for i, byte in enumerate(take(length)):
        made.append(byte if i < stride else byte + ((made[-1] + made[-stride]) >> 1) & 0xFF)
    return made[len(out):]


def plain(kind, length, take):
    """Decodes a token of the other kinds: literal bytes, a run, a slope, or sparse words."""
    if kind == 0x00:
        return take(length)
    if kind == 0x40:
        return take(1) * (length + 4)
    if kind == 0x80:
        start, slope = struct.unpack("<Bb", take(2))
        last = start + (length + 3) * slope
        if slope in (0, -128) or not 0 <= last <= 255:
            raise ValueError
        return bytes(range(start, last + (1 if slope > 0 else -1), slope))
    if length == 0 or length % 4:
        raise ValueError
    words = length // 4
    mask = int.from_bytes(take((words + 7) // 8), "little")
    if mask >> words:
        raise ValueError
    return b"".join(take(4) if mask >> i & 1 else bytes(4) for i in range(words))


class Anchor:
    """A directory entry."""
    def __init__(self, raw, slot):
        self.raw, self.slot = raw, slot
        (lo, hi, plo, phi, self.gravity, self.mass, self.kind, self.filter) = struct.unpack_from("<8Q", raw)
        self.seed, self.public = (hi, lo), (phi, plo)
        self.vector = int.from_bytes(raw[0x40:0x46], "little")
        self.scale, self.rights = struct.unpack_from("<HI", raw, 0x46)
        self.generation, self.clock, self.crc, self.hints = struct.unpack_from("<4I", raw, 0x58)
        self.good = zlib.crc32(raw[:0x60] + bytes(4) + raw[0x64:]) == self.crc
        self.inline = raw[0x68:]

    @property
    def live(self):
        """Returns whether the entry is valid and has not ended."""
        return self.kind & VALID and not self.kind & TOMBSTONE


class Volume:
    """A volume whose North superblock is valid."""

    def __init__(self, path):
        self.file = open(path, "rb", buffering=0)  # pylint: disable=consider-using-with
        self.length = os.fstat(self.file.fileno()).st_size
        sb = self.sb = self.at(0, 8192)
        self.word = lambda o: struct.unpack_from("<Q", sb, o)[0]
        self.half = lambda o: struct.unpack_from("<I", sb, o)[0]
        assert self.word(0) == 0x48594452415F4E34 and self.half(0x1FFC) == zlib.crc32(sb[:0x1FFC])
        self.bs, self.capacity = self.half(0x0C), self.word(0x28)
        self.ss = up(8192, self.bs) // self.word(0x20)
        self.cap, self.blocks = self.bs - 48, self.capacity // self.bs
        self.profile, self.device = self.half(0xF0), self.half(0xF4)
        (self.epoch, self.cortex, self.bitmap, self.flux, self.horizon, self.qmask, self.journal) = (
            self.word(o) * self.ss for o in (0x20, 0x30, 0x38, 0x40, 0x48, 0x58, 0xC4))
        self.anchors = [a for a in self.scan() if a.good]
        self.rebuilt = set()
        entry = self.at(self.word(0x68) * self.bs, 128)
        if (self.half(0x88) & 0xE or zlib.crc32(entry[:124]) != struct.unpack_from("<I", entry, 124)[0]) \
                and self.bitmap - self.cortex <= 256 << 20:
            self.rebuild()

    def close(self):
        """Closes the file of the volume."""
        self.file.close()

    def at(self, offset, count):
        """Returns bytes of the volume."""
        return os.pread(self.file.fileno(), count, offset)

    def data(self, begin, end):
        """Yields the ranges of [begin, end) that are no holes, beginning at multiples of 128 bytes."""
        while begin < end:
            try:
                start = os.lseek(self.file.fileno(), begin, os.SEEK_DATA)
            except OSError:
                return
            if start >= end:
                return
            stop = min(os.lseek(self.file.fileno(), start, os.SEEK_HOLE), end)
            yield max(begin, start - (start - begin) % 128), stop
            begin = stop + (-(stop - begin) % 128)

    def scan(self):
        """Yields all entries of the directory that are not empty."""
        for start, stop in self.data(self.cortex, self.bitmap):
            raw = self.at(start, stop - start)
            for i in range(0, len(raw) - 127, 128):
                if not blank(raw[i:i + 128]):
                    yield Anchor(raw[i:i + 128], (start + i - self.cortex) // 128)

    def marked(self, block):
        """Returns whether a block is allocated in the bitmap."""
        if self.profile == PICO:
            return self.at(self.bitmap + block // 64 * 16 + block % 64 // 8, 1)[0] >> block % 8 & 1
        return self.at(self.bitmap + block // 8, 1)[0] >> block % 8 & 1

    def rebuild(self):
        """Sets the bits that mounting an unclean volume rebuilds (section 1.8)."""
        for anchor in self.anchors:
            count = -(-anchor.mass // self.cap)
            if not anchor.live or count > self.blocks:
                continue
            for n in range(count):
                for k in range(12):
                    block = self.place(anchor, n, k, ballistic=True)
                    if block is None:
                        continue
                    marked = self.marked(block) or block in self.rebuilt
                    if marked and k == 0:
                        break
                    raw = self.at(block * self.bs, self.bs)
                    lo, hi, number, generation, magic, crc = struct.unpack_from("<4Q2I", raw)
                    if magic != 0x424C4B30 or number != n or (hi, lo) != anchor.seed:
                        continue
                    if marked:
                        break
                    if generation == anchor.generation and crc == zlib.crc32(raw[48:]):
                        self.rebuilt.add(block)
                        break

    def name(self, anchor):
        """Returns the name of an entry, which may continue in blocks of its own."""
        if not anchor.kind & EXTENDED:
            return anchor.inline.split(b"\0")[0]
        (pointer,) = struct.unpack_from("<Q", anchor.inline)
        name, previous = anchor.inline[8:].split(b"\0")[0], None
        for _ in range(16):
            if (pointer == previous or pointer % (self.bs // self.ss) or pointer < self.flux // self.ss
                    or pointer >= self.length // self.ss):
                break
            block = self.at(pointer * self.ss, 16 + 255)
            magic, kind, following = struct.unpack_from("<IIQ", block)
            if magic != 0x4D455441:
                break
            if kind == 2:
                return (name + block[16:].split(b"\0")[0])[:255]
            previous, pointer = pointer, following
        return name

    def place(self, anchor, n, k=None, ballistic=False):
        """Returns the absolute block, or None if there is none."""
        if k is None:
            k = anchor.hints >> 2 * (n >> 4) & 3 if n < 256 else 0
        if anchor.kind & HORIZON and not ballistic:
            block = anchor.gravity + (n << min(anchor.scale, 32)) & MASK
            return block if block < self.blocks else None
        unit = 1 << anchor.scale
        base = up(self.flux // self.bs, unit)
        phi = (self.blocks - base) >> anchor.scale if base < self.blocks else 0
        if phi <= 0:
            return None
        step = ((anchor.vector | 1) % phi) | 1
        for prime in (3, 5, 7, 11, 13):
            if phi % prime == 0 and step % prime == 0:
                step += 2
        if phi > 1 and step >= phi:
            step = (step % phi or 3) | 1
        still = self.device in (1, 2, 3) or self.word(0x80) & 5 or self.profile == SYSTEM
        theta = 0 if still else k % phi if phi < 32 else JUMPS[min(k, 15)] % phi
        index = ((anchor.gravity >> anchor.scale) + (n >> anchor.scale) % phi * step % phi + theta & MASK) % phi
        block = base + index * unit + n % unit + anchor.gravity % unit
        return block if block < self.blocks else None

    def payload(self, anchor, n):
        """Returns the content of block n, or None for a hole."""
        block = self.place(anchor, n)
        if block is None or not (self.profile == PICO or self.marked(block) or block in self.rebuilt):
            return None
        raw = self.at(block * self.bs, self.bs)
        lo, hi, number, generation, magic, crc, packing, header = struct.unpack_from("<4Q4I", raw)
        for wrong, code in ((magic != 0x424C4B30, -0x400 if raw[:64] == b"\xcc" * 64 else -0x403),
                            (header != zlib.crc32(raw[:44], 0xFFFFFFFF), -0x450),
                            ((hi, lo) != anchor.seed, -0x202), (number != n, -0x403),
                            (generation != anchor.generation, -0x500), (packing & 15 not in (0, 3), -0x612),
                            (packing & 15 and anchor.kind & ENCRYPTED, -0x505), (packing >> 4 > self.cap, -0x450),
                            (crc != zlib.crc32(raw[48:]), -0x451)):
            if wrong:
                raise Refused(code)
        if not packing & 15:
            return raw[48:]
        try:
            return unpack_tokens(raw[48:48 + (packing >> 4)], self.bs).ljust(self.cap, b"\0")[:self.cap]
        except ValueError as problem:
            raise Refused(-0x401) from problem

    def shards(self, tag):
        """Returns the entries of a tag in the order in which the reference implementation reads them."""
        mask = tag_mask(tag)
        found = [a for a in self.anchors if a.live and a.filter & mask == mask][:4096]
        found = [a for a in found if self.name(a) == tag]
        if not found or not tag:
            raise Refused(-0x200)
        if len(found) == 4096:
            raise Refused(-0x203)
        found.sort(key=lambda a: (a.clock, a.seed))
        total = 0
        for anchor in found:
            total += anchor.mass
            if anchor.mass == 0 or total > MASK:
                raise Refused(-0x608 if anchor.mass else -0x401)
        return found

    def stream(self, tag):
        """Yields the bytes of a tag piece by piece, as the reference implementation reads them."""
        for anchor in self.shards(tag):
            for n in range(-(-anchor.mass // self.cap)):
                part = self.payload(anchor, n)
                yield (part or bytes(self.cap))[:anchor.mass - n * self.cap]

    def layout(self):
        """Computes the layout of a volume (section 1.4)."""
        bs, alignment = max(PROFILES[self.profile][0], self.ss), PROFILES[self.profile][1]
        cap, pico = self.capacity, self.profile == PICO
        blocks = cap // bs
        at = epoch = up(8192, bs)
        at = cortex = at + up(2 * bs if pico else 1 << 20, bs)
        at += up(max(cap // 100 if pico and cap < 100 << 20 else cap * 2 // 100, 65536), bs)
        bitmap = at
        at = qmask = at + up(-(-blocks // 8), bs)
        flux = up(at + up(-(-blocks // 4), bs), up(max(alignment, bs), bs))
        log = up(65536 if pico else 10 << 20, bs)
        journal = (cap - max(bs, 8192)) // bs * bs - log
        horizon = journal - max(up(cap * (2 if self.profile == ARCHIVE else 10) // 100, bs), 4 * bs)
        if horizon <= flux:
            horizon = flux + (bs if pico else 1024 * bs)
        return epoch, cortex, bitmap, flux, horizon, qmask, journal

    def violations(self):
        """Returns violations of section 8, which says how a volume must be for the reference to mount it read-write."""
        bad = []

        def expect(good, *what):
            if not good:
                bad.append(" ".join(map(str, what)))

        self.check_superblock(expect)
        self.check_tables(expect)
        taken = set()
        for anchor in self.anchors:
            if anchor.slot and anchor.live:
                self.check_shard(anchor, taken, expect)
        return bad

    def copies(self):
        """Returns the offsets of the copies of the superblock."""
        room = up(8192, self.bs)
        return (up(self.capacity // 100 * 33, self.bs), up(self.capacity // 100 * 66, self.bs),
                (self.capacity - room) // self.bs * self.bs)

    def check_superblock(self, expect):
        """Checks the superblock, its copies and the epoch."""
        expect(self.length == self.capacity, "length")
        expect((self.epoch, self.cortex, self.bitmap, self.flux, self.horizon, self.qmask, self.journal)
               == self.layout(), "layout")
        expect(self.bs == max(PROFILES[self.profile][0], self.ss), "block size")
        for offset, value in ((0x60, 1), (0x68, self.epoch // self.bs), (0x70, 1), (0x94, 0), (0x9C, 0), (0xA4, 0),
                              (0xAC, 0), (0x50, self.word(0x48)), (0xBC, self.word(0xC4)), (0x100, 0xEFBEADDE),
                              (0x110, 0), (0x108, 0), (0x80, 0), (0xB4, self.word(0xF8))):
            expect(self.word(offset) == value, f"superblock {offset:#x}")
        for offset, value in ((0x08, 0x00060006), (0x88, 0x2001), (0xCC, 0x11223344)):
            expect(self.half(offset) == value, f"superblock {offset:#x}")
        expect(self.word(0x8C) in (0, 1), "compatible flags")
        expect(any(self.sb[0x10:0x20]), "identity")
        expect(self.sb[0xEF] == 0, "label")
        expect(not any(self.sb[0x118:0x1FFC]), "padding of the superblock")
        expect(self.device in (0, 1, 3) and (self.profile != ARCHIVE or self.device == 3), "device type")
        for place in self.copies():
            expect(self.at(place, 8192) == self.sb, f"copy at {place}")
        epoch = self.at(self.epoch, 128)
        expect(struct.unpack_from("<Q", epoch)[0] == 1 and struct.unpack_from("<I", epoch, 20)[0] == 1
               and not any(epoch[24:124]), "epoch")
        expect(struct.unpack_from("<I", epoch, 124)[0] == zlib.crc32(epoch[:124]), "epoch checksum")

    def check_tables(self, expect):
        """Checks the root entry, the reserved blocks, the quality mask and the bitmap."""
        root = self.anchors[0] if self.anchors else None
        expect(root and root.slot == 0 and root.seed == root.public == (MASK, MASK) and root.kind == 0x110
               and root.vector == 1 and root.rights == 0x37 and root.mass == 0 and root.filter == 0
               and root.inline == b"ROOT".ljust(24, b"\0"), "root")
        reach = 64 * ((self.qmask - self.bitmap) // 16) if self.profile == PICO else self.blocks
        room = up(8192, self.bs) // self.bs
        reserved = [(0, self.flux // self.bs), (self.journal // self.bs, self.blocks)]
        reserved += [(at // self.bs, at // self.bs + room) for at in self.copies()]
        for first, end in reserved:
            span = range(first, min(end, reach))
            expect(all(self.marked(b) for b in (span if len(span) < 3000 else [*span[:1500], *span[-1500:]])),
                   f"reserved blocks from {first}")
        for at in range(self.qmask, self.flux, max((self.flux - self.qmask) // 64, 4096)):
            count = min(4096, self.flux - at)
            expect(self.at(at, count) == b"\xAA" * count, f"quality mask at {at}")
        if self.profile == PICO:
            region = self.at(self.bitmap, self.qmask - self.bitmap)
            for i in range(0, len(region) - 15, 16):
                word = int.from_bytes(region[i:i + 8], "little")
                expect(region[i + 8] == ecc(word) and not any(region[i + 9:i + 16]), f"word {i // 16} of the bitmap")

    def check_shard(self, anchor, taken, expect):
        """Checks one entry, its blocks, and that a look-up finds it."""
        name, what = self.name(anchor), f"slot {anchor.slot}:"
        expect(anchor.filter == tag_mask(name), what, "filter")
        expect(0 < len(name) <= 255 and bool(anchor.kind & EXTENDED) == (len(name) > 24), what, "name")
        expect(anchor.generation >= 1 and anchor.mass > 0, what, "generation or mass")
        blocks = [self.place(anchor, n) for n in range(-(-anchor.mass // self.cap))]
        if anchor.kind & EXTENDED:
            blocks.append(struct.unpack_from("<Q", anchor.inline)[0] * self.ss // self.bs)
        copies = {at // self.bs + i for at in self.copies() for i in range(up(8192, self.bs) // self.bs)}
        for block in blocks:
            expect(block is not None and self.flux <= block * self.bs < self.horizon and block not in copies
                   and block not in taken and self.marked(block), what, "block", block)
            if self.profile == PICO:
                expect(block < 64 * ((self.qmask - self.bitmap) // 16), what, "reach of the bitmap")
            taken.add(block)
        tail = anchor.mass % self.cap
        last = self.at(blocks[-(-anchor.mass // self.cap) - 1] * self.bs, self.bs)
        packing = struct.unpack_from("<I", last, 0x28)[0]
        expect(packing & 15 or packing >> 4 == (tail or self.cap), what, "stored length")
        expect(blank(last[48 + (packing >> 4):]), what, "padding")
        slots, h = (self.bitmap - self.cortex) // 128, anchor.seed[0] ^ anchor.seed[1]
        h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & MASK
        start = (h ^ h >> 33) % slots
        used = {a.slot for a in self.anchors}
        distance = (anchor.slot - start) % slots
        expect(distance < 1024 and all((start + i) % slots in used for i in range(distance)), what, "not reachable")
