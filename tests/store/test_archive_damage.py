"""Damaged and foreign files are refused by name, whatever the damage."""

import io
import os
import zipfile

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.store.archive import read_checkpoint, write_checkpoint
from support.store_files import assert_same, is_refused, overwrite, posix_only, resealed


def test_every_bit_matters(small):
    sound = small.read_bytes()
    for position in range(len(sound)):
        for bit in range(8):
            damaged = bytearray(sound)
            damaged[position] ^= 1 << bit
            assert is_refused(small, damaged), (position, bit)


def test_every_truncation_is_found(small):
    sound = small.read_bytes()
    for length in range(len(sound)):
        assert is_refused(small, sound[:length]), length


def swapped_members(data, rng):
    """The same archive, two members of which have each other's content."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        seal = archive.comment
    one, two = rng.choice(sorted(members), 2, replace=False)
    members[one], members[two] = members[two], members[one]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = seal
    return out.getvalue()


def mutated(data, rng):
    """The bytes with one random damage, which may happen to change nothing."""
    out = bytearray(data)
    start, other = (int(i) for i in rng.integers(0, len(data), size=2))
    length = int(rng.integers(1, 200))
    match int(rng.integers(8)):
        case 6:
            page = 4096 * (start // 4096)
            out[page : page + 4096] = bytes(len(out[page : page + 4096]))
        case 7:
            return swapped_members(data, rng)
        case 0:
            for position in rng.integers(0, len(data), size=rng.integers(1, 9)):
                out[position] ^= 1 << int(rng.integers(8))
        case 1:
            del out[start:]
        case 2:
            a, b = (64 * (i // 64) for i in (start, other))
            out[a : a + 64], out[b : b + 64] = data[b : b + 64], data[a : a + 64]
        case 3:
            out[start : start + length] = bytes(len(out[start : start + length]))
        case 4:
            out[start:start] = rng.bytes(length)
        case 5:
            out += rng.bytes(length)
    return bytes(out)


@pytest.fixture
def medium(path):
    rng = np.random.default_rng(1)
    arrays = {"mean": rng.normal(size=(5, 4)), "ids": np.arange(5), "words": np.array(["a", "bc"])}
    write_checkpoint(path, {"seed": 17, "journal": [["merge", 1, 2]]}, arrays)
    return path


def test_ten_thousand_damaged_files_are_refused(medium):
    sound = medium.read_bytes()
    rng = np.random.default_rng(2)
    n_refused = 0
    while n_refused < 10_000:
        damaged = mutated(sound, rng)
        if damaged == sound:
            continue
        assert is_refused(medium, damaged), damaged
        n_refused += 1


def test_damage_under_a_valid_seal_raises_nothing_else(medium):
    """With the seal recomputed, every other check stands alone."""
    sound = medium.read_bytes()
    expected = read_checkpoint(medium)
    rng = np.random.default_rng(3)
    n_refused = 0
    for _ in range(3000):
        damaged = bytearray(sound[:-64])
        for position in rng.integers(0, len(damaged), size=rng.integers(1, 4)):
            damaged[position] ^= 1 << int(rng.integers(8))
        overwrite(medium, resealed(bytes(damaged) + sound[-64:]))
        try:
            read = read_checkpoint(medium)
        except CheckpointError:
            n_refused += 1
        else:
            assert_same(read.arrays, expected.arrays)
    assert n_refused > 2000


@pytest.mark.parametrize("name", ["x", "y"])
def test_message_names_file_and_damaged_member(small, name):
    with zipfile.ZipFile(small) as archive:
        member = archive.read(f"{name}.npy")
    damaged = member[:-1] + bytes([member[-1] ^ 1])
    small.write_bytes(small.read_bytes().replace(member, damaged))
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(small)
    assert str(small) in str(caught.value)
    assert f"'{name}.npy'" in str(caught.value)
    assert "does not match its seal" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00" * 4096, b"PK\x03\x04", b"text " * 99],
    ids=["empty", "zero", "pk", "text"],
)
def test_foreign_file(path, content):
    assert is_refused(path, content)


def test_foreign_zip(path):
    np.savez(path.with_suffix(".npz"), a=np.zeros(3))
    with pytest.raises(CheckpointError, match=r"model\.npz' is not an everlearn model: those are"):
        read_checkpoint(path.with_suffix(".npz"))


@pytest.mark.parametrize("content", [b"import numpy\n", b"a,b\n1,2\n", b"\x80\x04K\x01.", b"P"])
def test_foreign_file_is_called_foreign(path, content):
    path.write_bytes(content)
    said = "damaged|cut off" if b"PK\x03\x04".startswith(content) else "not an everlearn model"
    with pytest.raises(CheckpointError, match=said):
        read_checkpoint(path)


def test_damaged_file_is_not_called_foreign(small):
    sound = small.read_bytes()
    for damaged in (sound[: len(sound) // 2], sound[1:], b"#" + sound[1:], sound[:3]):
        small.write_bytes(damaged)
        with pytest.raises(CheckpointError) as caught:
            read_checkpoint(small)
        assert "not an everlearn model" not in str(caught.value)


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(CheckpointError, match="it is a directory; name a file in it"):
        read_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_checkpoint(tmp_path / "absent.evl")


@posix_only
def test_pipe_does_not_hang(path):
    os.mkfifo(path)
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_checkpoint(path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is closed to root")
def test_file_that_may_not_be_opened(small):
    small.chmod(0)
    with pytest.raises(PermissionError):
        read_checkpoint(small)
