//! The readers of untrusted bytes, one subject each, with the properties that hold for any input. `cargo test` replays the kept inputs
//! and damages them (`fuzz/tests.rs`); `fuzz/run`, beside this folder, searches for new ones with libFuzzer.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use x509_cert::der::Decode;
use x509_cert::der::asn1::OctetStringRef;
use x509_cert::request::CertReq;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::certificate::Certificate;
use crate::certificate::forge::Issuer;
use crate::certificate::path::{Now, verdict_on};
use crate::certificate::private_key::public_key_of;
use crate::der::element;
use crate::key::{KeyRequest, KeyType, PrivateKey, PrivateKeyFormat};
use crate::rsa::Method;
use crate::vault::{OVERHEAD, Vault, VaultError};

type Judge = fn(&[u8]) -> String;

pub struct Subject {
    pub name: &'static str,
    /// Panics if the input breaks a rule, and returns the verdict on it, which has to be the same the next time.
    judge: Judge,
}

pub const SUBJECTS: [Subject; 8] = [
    subject("certificate", certificate),
    subject("csr", csr),
    subject("der", der),
    subject("extensions", extensions),
    subject("path", path),
    subject("private-key-der", private_key_der),
    subject("private-key-pem", private_key_pem),
    subject("vault", vault),
];

const fn subject(name: &'static str, judge: Judge) -> Subject {
    Subject { name, judge }
}

/// CPU time of one input: the event loop waits for most of these.
const MAX_CPU: Duration = Duration::from_millis(50);

impl Subject {
    pub fn named(name: &str) -> Option<&'static Self> {
        SUBJECTS.iter().find(|subject| subject.name == name)
    }
}

/// Panics if `input` makes the subject panic, takes over 50 ms both times, or gets another verdict the second time.
pub fn check(subject: &Subject, input: &[u8]) {
    let [first, second] = [(); 2].map(|()| {
        let start = cpu_time();
        let verdict = (subject.judge)(input);
        (verdict, cpu_time() - start)
    });
    assert_eq!(first.0, second.0, "{}: another verdict", subject.name);
    let least = first.1.min(second.1);
    assert!(least <= MAX_CPU, "{}: it took {least:?}", subject.name);
}

/// CPU time of this thread: the load of other processes does not count.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing, and the clock exists on Linux and macOS.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "a clock of CPU time");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn certificate(input: &[u8]) -> String {
    let Some(certificate) = Certificate::parse(input) else {
        return String::new();
    };
    assert_eq!(certificate.der(), input);
    let public_key = certificate.public_key_der();
    let names = certificate.names();
    let uris = names.uris.iter().flatten();
    assert!(uris.into_iter().all(|uri| !uri.contains(['\0', '\n'])));
    format!(
        "{:?}",
        (
            (names, public_key),
            certificate.serial_number(),
            (certificate.not_before(), certificate.not_after()),
            (certificate.is_ca(), certificate.has_ca_key()),
            (certificate.serves_tls(), certificate.has_tls_key()),
            certificate.signs_handshakes(),
            certificate.claims_to_certify(),
        )
    )
}

/// Extensions of a root, an intermediate and a leaf, in rightly signed certificates.
fn extensions(input: &[u8]) -> String {
    static ISSUERS: LazyLock<[Issuer; 2]> = LazyLock::new(|| {
        let root = Issuer::new("root", None);
        let middle = Issuer::new("middle", Some(&root));
        [root, middle]
    });
    let [root, middle] = &*ISSUERS;
    let sections = sections(input);
    let of = |index: usize| sections.get(index).map_or(&[][..], |section| section.1);
    let anchor = root.reissued(root, of(0));
    let ders = [middle.leaf_with(&[1], of(2)), middle.reissued(root, of(1))];
    verdict_on(&[&ders[0], &ders[1]], &[&anchor], NOW)
}

fn path(input: &[u8]) -> String {
    let sections = sections(input);
    let of = |wanted: bool| {
        let chosen = sections
            .iter()
            .filter(|(is_anchor, _)| *is_anchor == wanted);
        chosen.map(|(_, der)| *der).collect::<Vec<_>>()
    };
    verdict_on(&of(false), &of(true), NOW)
}

/// 2026-11-21T12:00:00.5Z: the certificates that are kept are valid.
const NOW: Now = Now {
    latest_not_before: 1_795_262_400_500.0,
    now: 1_795_262_400_500.0,
};

/// Each starts with 15 bits of its length, after one bit of meaning. The last may be shorter.
fn sections(mut input: &[u8]) -> Vec<(bool, &[u8])> {
    let mut sections = Vec::new();
    while let Some((header, rest)) = input.split_first_chunk() {
        let header = u16::from_be_bytes(*header);
        let length = usize::from(header & 0x7fff).min(rest.len());
        let (section, after) = rest.split_at(length);
        sections.push((header & 0x8000 != 0, section));
        input = after;
    }
    sections
}

fn private_key_pem(input: &[u8]) -> String {
    let found = public_key_of(input);
    if let Some(der) = &found {
        SubjectPublicKeyInfoOwned::from_der(der).expect("a public key");
    }
    format!("{found:?}")
}

/// The first byte chooses the label: base64 is hard to damage with sense.
fn private_key_der(input: &[u8]) -> String {
    let Some((label, der)) = input.split_first() else {
        return String::new();
    };
    let labels = ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"];
    let label = labels[usize::from(*label) % labels.len()];
    let pem = pem_rfc7468::encode_string(label, pem_rfc7468::LineEnding::LF, der);
    private_key_pem(pem.expect("PEM").as_bytes())
}

/// The first byte chooses the type of the key, the rest is the identity, and a DNS name on each further line.
fn csr(input: &[u8]) -> String {
    let Some((&choice, names)) = input.split_first() else {
        return String::new();
    };
    let key_type = [KeyType::EcdsaP256, KeyType::EcdsaP384][usize::from(choice % 2)];
    let mut lines = names
        .split(|&byte| byte == b'\n')
        .map(|line| String::from_utf8_lossy(line).into_owned());
    let identity = lines.next().unwrap_or_default();
    let (dns, format) = (lines.collect(), PrivateKeyFormat::Pkcs8);
    let Ok(request) = KeyRequest::new(key_type, Method::Library, identity, dns, format) else {
        return "refused".into();
    };
    let key =
        PrivateKey::generate(key_type, Method::Library, &AtomicBool::new(false)).expect("a key");
    let csr = key.answer(&request).expect("an answer").csr_der;
    let read = CertReq::from_der(&csr).expect("a CSR");
    let extensions = read.info.attributes.iter().flat_map(|it| it.values.iter());
    let tags = std::iter::once(0x86).chain(std::iter::repeat(0x82));
    let wanted = names.split(|&byte| byte == b'\n').zip(tags);
    let wanted: Vec<_> = wanted.map(|(name, tag)| element(tag, &[name])).collect();
    let mut asked = extensions.map(|value| value.value());
    assert!(
        asked.any(|value| value.ends_with(&wanted.concat())),
        "other names"
    );
    "asked".into()
}

/// `element` writes what a reader reads back.
fn der(input: &[u8]) -> String {
    let half = input.len() / 2;
    let written = element(0x04, &[&input[..half], &input[half..]]);
    let read = <&OctetStringRef>::from_der(&written).expect("an element");
    assert_eq!(read.as_bytes(), input);
    "written".into()
}

/// The first two bytes choose by how much the buffers are wrong, the rest is the key, and a sealed one of somebody else.
fn vault(input: &[u8]) -> String {
    let Some(([more, place], key)) = input.split_first_chunk() else {
        return String::new();
    };
    let vault = Vault::of_process().expect("a vault");
    let wrong = usize::from(*more);
    let mut sealed = vec![0; key.len() + wrong];
    assert_eq!(vault.seal(key, &mut sealed).is_ok(), wrong == OVERHEAD);
    sealed.resize(key.len() + OVERHEAD, 0);
    vault.seal(key, &mut sealed).expect("sealed");
    let mut opened = vec![1; key.len()];
    assert_eq!(vault.open(&sealed, &mut opened), Ok(()));
    assert_eq!(opened, key);
    let place = usize::from(*place) % sealed.len();
    sealed[place] ^= 1 << (more % 8);
    assert_eq!(vault.open(&sealed, &mut opened), Err(VaultError::NotSealed));
    assert!(opened.iter().all(|&byte| byte == 0));
    let mut target = vec![1; wrong];
    assert!(vault.open(key, &mut target).is_err());
    "sealed".into()
}
