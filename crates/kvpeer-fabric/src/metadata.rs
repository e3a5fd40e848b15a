//! What a peer must know to write to us, as bytes that travel in its `connect` message.
//!
//! Layout, integers little-endian: version (1 byte, [`VERSION`]), provider tag (1), addressing (1: 0 offset,
//! 1 virtual), length of the name (1), memory key (8), base of the region for remote addresses (8; 0 with offset
//! addressing), endpoint name (1..=255 bytes, libfabric's own format). Nothing may follow.

use crate::provider::Provider;

/// The only version of the layout so far.
const VERSION: u8 = 1;
const HEADER: usize = 20;

/// How remote addresses are counted (libfabric's `FI_MR_VIRT_ADDR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressing {
    /// From the start of the registration.
    Offset,
    /// The target's own virtual addresses.
    Virtual,
}

impl Addressing {
    const fn tag(self) -> u8 {
        match self {
            Self::Offset => 0,
            Self::Virtual => 1,
        }
    }
}

/// How endpoint names are laid out, as far as their form can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressFormat {
    /// `struct sockaddr_in`
    Ipv4,
    /// `struct sockaddr_in6`
    Ipv6,
    /// One NUL-terminated string.
    Text,
    /// The provider's own.
    Opaque,
}

/// What is wrong with a peer's metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// It ends before its own fields do.
    #[error("it is cut short at {len} bytes")]
    Short {
        /// Bytes there are.
        len: usize,
    },
    /// Bytes follow its last field.
    #[error("{extra} bytes follow its end")]
    TrailingBytes {
        /// How many.
        extra: usize,
    },
    /// It has a layout we do not know.
    #[error("its layout version is {theirs}, ours is 1")]
    Version {
        /// The version it names.
        theirs: u8,
    },
    /// The peer uses another libfabric provider.
    #[error("the peer uses provider tag {theirs}, this node uses {ours}")]
    Provider {
        /// Ours.
        ours: Provider,
        /// The tag it names (1 tcp, 2 shm).
        theirs: u8,
    },
    /// The peer's provider counts remote addresses in another way than ours.
    #[error("its addressing mode is {theirs}, ours is {ours} (0 offset, 1 virtual)")]
    Addressing {
        /// Ours.
        ours: u8,
        /// The mode it names.
        theirs: u8,
    },
    /// The base is not the one that the addressing mode and the announced region imply.
    #[error("its base address {theirs:#x} does not match the region's, {expected:#x}")]
    Base {
        /// From the addressing mode and the region.
        expected: u64,
        /// The base it names.
        theirs: u64,
    },
    /// The endpoint name cannot be one of our provider's.
    #[error("its endpoint name is malformed: {reason}")]
    Name {
        /// What is wrong.
        reason: &'static str,
    },
}

/// The decoded form, borrowing the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metadata<'a> {
    pub(crate) key: u64,
    pub(crate) base: u64,
    pub(crate) name: &'a [u8],
}

/// What a peer's metadata must agree with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) provider: Provider,
    pub(crate) addressing: Addressing,
    pub(crate) format: AddressFormat,
    /// The base address that the peer announced for its region on the control plane.
    pub(crate) region_base: u64,
}

impl<'a> Metadata<'a> {
    /// `None` if the name has no length that fits (0 or above 255).
    pub(crate) fn encode(&self, provider: Provider, addressing: Addressing) -> Option<Vec<u8>> {
        let name_len = u8::try_from(self.name.len()).ok().filter(|len| *len > 0)?;
        let mut bytes = Vec::with_capacity(HEADER + self.name.len());
        bytes.extend([VERSION, provider.tag(), addressing.tag(), name_len]);
        bytes.extend(self.key.to_le_bytes());
        bytes.extend(self.base.to_le_bytes());
        bytes.extend(self.name);
        Some(bytes)
    }

    /// Total: any bytes give a value that agrees with `expected`, or the reason why not.
    pub(crate) fn decode(bytes: &'a [u8], expected: Expected) -> Result<Self, MetadataError> {
        let short = MetadataError::Short { len: bytes.len() };
        let (&[version, ..], true) = (bytes, !bytes.is_empty()) else { return Err(short) };
        if version != VERSION {
            return Err(MetadataError::Version { theirs: version });
        }
        let Some((&[_, provider, addressing, name_len], rest)) = bytes.split_first_chunk::<4>() else {
            return Err(short);
        };
        let Some((key, rest)) = rest.split_first_chunk::<8>() else { return Err(short) };
        let Some((base, rest)) = rest.split_first_chunk::<8>() else { return Err(short) };
        let Some((name, trailing)) = rest.split_at_checked(name_len.into()) else { return Err(short) };
        if !trailing.is_empty() {
            return Err(MetadataError::TrailingBytes { extra: trailing.len() });
        }
        if provider != expected.provider.tag() {
            return Err(MetadataError::Provider { ours: expected.provider, theirs: provider });
        }
        if addressing != expected.addressing.tag() {
            return Err(MetadataError::Addressing { ours: expected.addressing.tag(), theirs: addressing });
        }
        let base = u64::from_le_bytes(*base);
        let expected_base = match expected.addressing {
            Addressing::Offset => 0,
            Addressing::Virtual => expected.region_base,
        };
        if base != expected_base {
            return Err(MetadataError::Base { expected: expected_base, theirs: base });
        }
        check_name(name, expected.format).map_err(|reason| MetadataError::Name { reason })?;
        Ok(Self { key: u64::from_le_bytes(*key), base, name })
    }
}

/// libfabric reads a name without being told its length, by what the name itself says: check that first.
fn check_name(name: &[u8], format: AddressFormat) -> Result<(), &'static str> {
    // Offsets of `struct sockaddr_in` and `sockaddr_in6` on Linux: family 0..2, port 2..4 (big-endian), then the
    // address at 4..8, or at 8..24.
    let (size, family, address) = match format {
        AddressFormat::Ipv4 => (16, libc::AF_INET, 4..8),
        AddressFormat::Ipv6 => (28, libc::AF_INET6, 8..24),
        AddressFormat::Text => {
            return match name.split_last() {
                Some((0, text)) if !text.is_empty() && !text.contains(&0) => Ok(()),
                Some(_) | None => Err("not one NUL-terminated string"),
            };
        }
        AddressFormat::Opaque => return if name.is_empty() { Err("empty") } else { Ok(()) },
    };
    if name.len() != size {
        return Err("not the length of a socket address of our family");
    }
    if i32::from(u16::from_ne_bytes([name[0], name[1]])) != family {
        return Err("not our address family");
    }
    if name[2..4] == [0, 0] {
        return Err("port 0");
    }
    if name[address].iter().all(|byte| *byte == 0) {
        return Err("the unspecified address");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXPECTED: Expected = Expected {
        provider: Provider::Tcp,
        addressing: Addressing::Offset,
        format: AddressFormat::Ipv4,
        region_base: 0x7000,
    };

    fn ipv4_name() -> [u8; 16] {
        let mut name = [0; 16];
        name[0..2].copy_from_slice(&2u16.to_ne_bytes());
        name[2..8].copy_from_slice(&[0x16, 0x4e, 127, 0, 0, 1]);
        name
    }

    fn sample() -> Vec<u8> {
        let name = ipv4_name();
        Metadata { key: 0x0102_0304_0506_0708, base: 0, name: &name }
            .encode(Provider::Tcp, Addressing::Offset)
            .expect("fits")
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes = sample();
        assert_eq!(bytes[..4], [1, 1, 0, 16]);
        assert_eq!(bytes[4..12], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[12..20], [0; 8]);
        assert_eq!(bytes[20..], ipv4_name());
        let decoded = Metadata::decode(&bytes, EXPECTED).expect("valid");
        assert_eq!((decoded.key, decoded.base, decoded.name), (0x0102_0304_0506_0708, 0, &ipv4_name()[..]));
    }

    #[test]
    fn what_is_not_ours_is_refused_with_its_reason() {
        let with = |at: usize, byte: u8| {
            let mut bytes = sample();
            bytes[at] = byte;
            Metadata::decode(&bytes, EXPECTED).expect_err("refused")
        };
        assert_eq!(with(0, 2), MetadataError::Version { theirs: 2 });
        assert_eq!(with(1, 2), MetadataError::Provider { ours: Provider::Tcp, theirs: 2 });
        assert_eq!(with(2, 7), MetadataError::Addressing { ours: 0, theirs: 7 });
        assert_eq!(with(3, 255), MetadataError::Short { len: 36 });
        assert_eq!(with(3, 15), MetadataError::TrailingBytes { extra: 1 });
        assert_eq!(with(12, 9), MetadataError::Base { expected: 0, theirs: 9 });
        assert_eq!(with(20, 10), MetadataError::Name { reason: "not our address family" });
        assert_eq!(Metadata::decode(&[], EXPECTED), Err(MetadataError::Short { len: 0 }));
    }

    #[test]
    fn virtual_addressing_must_name_the_announced_base() {
        let expected = Expected {
            provider: Provider::Shm,
            addressing: Addressing::Virtual,
            format: AddressFormat::Text,
            region_base: 0x7000,
        };
        let encode = |base, name: &[u8]| {
            Metadata { key: 1, base, name }.encode(Provider::Shm, Addressing::Virtual).expect("fits")
        };
        assert!(Metadata::decode(&encode(0x7000, b"fi_shm://1\0"), expected).is_ok());
        let wrong = MetadataError::Base { expected: 0x7000, theirs: 0x8000 };
        assert_eq!(Metadata::decode(&encode(0x8000, b"fi_shm://1\0"), expected), Err(wrong));
        for name in [&b"fi_shm"[..], b"a\0b\0", b"\0"] {
            assert!(Metadata::decode(&encode(0x7000, name), expected).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for format in [AddressFormat::Ipv4, AddressFormat::Ipv6, AddressFormat::Text, AddressFormat::Opaque] {
                let _ = Metadata::decode(&bytes, Expected { format, ..EXPECTED });
            }
        }

        #[test]
        fn damaged_samples_decode_or_are_refused(at in 0usize..36, byte: u8, cut in 0usize..=36) {
            let mut bytes = sample();
            bytes[at] = byte;
            bytes.truncate(cut);
            if let Ok(decoded) = Metadata::decode(&bytes, EXPECTED) {
                prop_assert_eq!(decoded.encode(Provider::Tcp, Addressing::Offset), Some(bytes));
            }
        }

        #[test]
        fn what_was_encoded_is_decoded(key: u64, name in prop::collection::vec(any::<u8>(), 1..=255)) {
            let expected = Expected { format: AddressFormat::Opaque, ..EXPECTED };
            let metadata = Metadata { key, base: 0, name: &name };
            let bytes = metadata.encode(Provider::Tcp, Addressing::Offset).expect("fits");
            prop_assert_eq!(Metadata::decode(&bytes, expected), Ok(metadata));
        }
    }
}
