//! X.509 certificates as aws-lc reads them: it shares its X.509 code with BoringSSL, Envoy's library.

pub mod bridge;
#[cfg(any(test, fuzzing))]
pub(crate) mod forge;
pub(crate) mod path;
pub mod private_key;
mod trusted;
mod verification;

use std::ffi::c_int;
use std::os::raw::{c_long, c_uchar};
use std::ptr::{NonNull, null_mut};

use aws_lc_sys::{
    ASN1_STRING, ASN1_STRING_get0_data, ASN1_STRING_length, ASN1_STRING_type, ASN1_TIME,
    ASN1_TIME_to_posix, BN_is_odd, BN_num_bits, EC_GROUP_get_curve_name, EC_KEY_get0_group,
    ERR_clear_error, EVP_PKEY_EC, EVP_PKEY_ED25519, EVP_PKEY_RSA, EVP_PKEY_bits, EVP_PKEY_cmp,
    EVP_PKEY_get0_EC_KEY, EVP_PKEY_get0_RSA, EVP_PKEY_id, EXFLAG_CA, EXFLAG_INVALID, EXFLAG_SI,
    GEN_DNS, GEN_URI, GENERAL_NAME, GENERAL_NAMES_free, NID_ED25519, NID_X9_62_prime256v1,
    NID_ecdsa_with_SHA256, NID_ecdsa_with_SHA384, NID_ecdsa_with_SHA512, NID_name_constraints,
    NID_rsassaPss, NID_secp384r1, NID_secp521r1, NID_sha256WithRSAEncryption,
    NID_sha384WithRSAEncryption, NID_sha512WithRSAEncryption, NID_subject_alt_name, OPENSSL_free,
    OPENSSL_sk_num, OPENSSL_sk_value, RSA_get0_e, V_ASN1_NEG_INTEGER, X509,
    X509_EXTENSION_get_data, X509_NAME_cmp, X509_V_OK, X509_check_issued, X509_free,
    X509_get_X509_PUBKEY, X509_get_ext, X509_get_ext_by_NID, X509_get_ext_d2i,
    X509_get_extended_key_usage, X509_get_extension_flags, X509_get_key_usage,
    X509_get_signature_nid, X509_get_subject_name, X509_get0_notAfter, X509_get0_notBefore,
    X509_get0_pubkey, X509_get0_serialNumber, X509_verify, X509v3_KU_CRL_SIGN,
    X509v3_KU_DIGITAL_SIGNATURE, X509v3_KU_KEY_CERT_SIGN, XKU_SSL_CLIENT, XKU_SSL_SERVER, d2i_X509,
    i2d_X509_PUBKEY,
};
use pem_rfc7468::LineEnding;

use crate::der::{are_der_names, is_der};
use crate::hex;

/// RFC 5280, section 4.1.2.2, allows 20. The serial number goes into logs and records.
const MAX_SERIAL_BYTES: usize = 64;

/// The subject alternative names of a certificate.
#[derive(Debug, Default)]
pub struct Names {
    /// `None` if one has a character that no URI has.
    pub uris: Option<Vec<String>>,
    pub dns: Vec<String>,
    /// The number of other names.
    pub others: u32,
}

/// A certificate that aws-lc reads, its extensions too.
pub struct Certificate {
    x509: NonNull<X509>,
    der: Box<[u8]>,
    /// Milliseconds since the epoch.
    not_before: f64,
    not_after: f64,
}

// SAFETY: the library counts references to an X509 atomically and fills its caches under an internal lock, so that threads
// may share and free it, as a TLS server's threads do.
unsafe impl Send for Certificate {}
// SAFETY: as above.
unsafe impl Sync for Certificate {}

impl Drop for Certificate {
    fn drop(&mut self) {
        // SAFETY: owned, and dropped once.
        unsafe { X509_free(self.x509.as_ptr()) }
    }
}

impl Certificate {
    pub fn parse(der: &[u8]) -> Option<Self> {
        let length = c_long::try_from(der.len()).ok().filter(|_| is_der(der))?;
        let mut end = der.as_ptr();
        // SAFETY: reads at most `length` bytes from `end`, and allocates since the target is null.
        let x509 = NonNull::new(unsafe { d2i_X509(null_mut(), &raw mut end, length) });
        forget_errors();
        let mut certificate = Self {
            x509: x509?,
            der: der.into(),
            not_before: f64::NAN,
            not_after: f64::NAN,
        };
        // SAFETY: it is valid, and so are its dates as long.
        let (not_before, not_after, flags) = unsafe {
            (
                milliseconds(X509_get0_notBefore(certificate.x509.as_ptr())),
                milliseconds(X509_get0_notAfter(certificate.x509.as_ptr())),
                X509_get_extension_flags(certificate.x509.as_ptr()),
            )
        };
        forget_errors();
        (certificate.not_before, certificate.not_after) = (not_before?, not_after?);
        let is_whole = end == der.as_ptr_range().end && flags & EXFLAG_INVALID as u32 == 0;
        let has_usual_serial = certificate.serial().0.len() <= MAX_SERIAL_BYTES;
        (is_whole && has_usual_serial && certificate.has_der_names()).then_some(certificate)
    }

    pub fn der(&self) -> &[u8] {
        &self.der
    }

    pub fn pem(&self) -> Option<String> {
        pem_rfc7468::encode_string("CERTIFICATE", LineEnding::LF, &self.der).ok()
    }

    fn as_ptr(&self) -> *mut X509 {
        self.x509.as_ptr()
    }

    /// Milliseconds since the epoch.
    pub fn not_before(&self) -> f64 {
        self.not_before
    }

    pub fn not_after(&self) -> f64 {
        self.not_after
    }

    fn has_flag(&self, flag: i32) -> bool {
        // SAFETY: it is valid.
        unsafe { X509_get_extension_flags(self.as_ptr()) & flag as u32 != 0 }
    }

    pub fn is_ca(&self) -> bool {
        self.has_flag(EXFLAG_CA)
    }

    /// Whether its subject is its issuer.
    pub fn is_self_issued(&self) -> bool {
        self.has_flag(EXFLAG_SI)
    }

    /// Whether it constrains the names below it.
    pub fn constrains_names(&self) -> bool {
        // SAFETY: it is valid.
        unsafe { X509_get_ext_by_NID(self.as_ptr(), NID_name_constraints, -1) >= 0 }
    }

    /// Whether an extended key usage, if there is one, names both server and client authentication.
    pub fn serves_tls(&self) -> bool {
        const BOTH: u32 = (XKU_SSL_SERVER | XKU_SSL_CLIENT) as u32;
        // SAFETY: it is valid. Without the extension all bits are set.
        unsafe { X509_get_extended_key_usage(self.as_ptr()) & BOTH == BOTH }
    }

    /// `None` without the extension.
    fn key_usage(&self) -> Option<u32> {
        // SAFETY: it is valid. Without the extension all bits are set.
        Some(unsafe { X509_get_key_usage(self.as_ptr()) }).filter(|&usage| usage != u32::MAX)
    }

    /// Whether a key usage, if there is one, allows to sign a TLS handshake.
    pub fn signs_handshakes(&self) -> bool {
        let usage = self.key_usage();
        usage.is_none_or(|usage| usage & X509v3_KU_DIGITAL_SIGNATURE as u32 != 0)
    }

    /// Whether a key usage says that this key signs certificates or revocation lists.
    pub fn claims_to_certify(&self) -> bool {
        const EITHER: u32 = (X509v3_KU_KEY_CERT_SIGN | X509v3_KU_CRL_SIGN) as u32;
        self.key_usage().is_some_and(|usage| usage & EITHER != 0)
    }

    /// Whether every TLS peer takes a handshake that is signed by this key.
    pub fn has_tls_key(&self) -> bool {
        self.has_strong_key(&[EVP_PKEY_RSA, EVP_PKEY_EC])
    }

    /// Whether it has a key that every TLS peer takes from a CA.
    pub fn has_ca_key(&self) -> bool {
        self.has_strong_key(&[EVP_PKEY_RSA, EVP_PKEY_EC, EVP_PKEY_ED25519])
    }

    /// RSA of 2048 to 8192 bits, whose exponent is no longer than 65537 since that multiplies a peer's work; P-256, P-384, P-521.
    fn has_strong_key(&self, kinds: &[i32]) -> bool {
        // SAFETY: the key belongs to this certificate, its parts to the key, and none is used where it is null.
        unsafe {
            let key = X509_get0_pubkey(self.as_ptr());
            if key.is_null() {
                forget_errors();
                return false;
            }
            let kind = EVP_PKEY_id(key);
            kinds.contains(&kind)
                && match kind {
                    EVP_PKEY_RSA => {
                        let exponent = RSA_get0_e(EVP_PKEY_get0_RSA(key));
                        (2_048..=8_192).contains(&EVP_PKEY_bits(key))
                            && (2..=17).contains(&BN_num_bits(exponent))
                            && BN_is_odd(exponent) == 1
                    }
                    EVP_PKEY_EC => {
                        let group = EC_KEY_get0_group(EVP_PKEY_get0_EC_KEY(key));
                        [NID_X9_62_prime256v1, NID_secp384r1, NID_secp521r1]
                            .contains(&EC_GROUP_get_curve_name(group))
                    }
                    _ => true,
                }
        }
    }

    /// Whether it is signed with SHA-256, SHA-384, SHA-512 or Ed25519.
    pub fn has_strong_signature(&self) -> bool {
        const STRONG: [c_int; 8] = [
            NID_ecdsa_with_SHA256,
            NID_ecdsa_with_SHA384,
            NID_ecdsa_with_SHA512,
            NID_sha256WithRSAEncryption,
            NID_sha384WithRSAEncryption,
            NID_sha512WithRSAEncryption,
            NID_rsassaPss,
            NID_ED25519,
        ];
        // SAFETY: it is valid.
        STRONG.contains(&unsafe { X509_get_signature_nid(self.as_ptr()) })
    }

    /// SubjectPublicKeyInfo.
    pub fn public_key_der(&self) -> Option<Vec<u8>> {
        let mut start: *mut u8 = null_mut();
        // SAFETY: the key belongs to this certificate; the library allocates what it writes, which is freed here.
        unsafe {
            let length = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(self.as_ptr()), &raw mut start);
            let length = usize::try_from(length).ok().filter(|_| !start.is_null())?;
            let der = std::slice::from_raw_parts(start, length).to_vec();
            OPENSSL_free(start.cast());
            Some(der)
        }
    }

    /// `is_der` does not look into extensions, and aws-lc takes more than DER there.
    fn has_der_names(&self) -> bool {
        // SAFETY: the extension and its bytes belong to this certificate.
        unsafe {
            let index = X509_get_ext_by_NID(self.as_ptr(), NID_subject_alt_name, -1);
            index < 0 || {
                let names = X509_EXTENSION_get_data(X509_get_ext(self.as_ptr(), index));
                are_der_names(bytes_of(names.cast()))
            }
        }
    }

    /// Its subject alternative names.
    pub fn names(&self) -> Names {
        let mut found = Names::default();
        let (mut uris, mut are_plain) = (Vec::new(), true);
        // SAFETY: the list is this function's own, and freed by it; names of the types GEN_URI and GEN_DNS are IA5Strings.
        unsafe {
            let id = NID_subject_alt_name;
            let names = X509_get_ext_d2i(self.as_ptr(), id, null_mut(), null_mut());
            if names.is_null() {
                forget_errors();
                return Names {
                    uris: Some(uris),
                    ..found
                };
            }
            for index in 0..OPENSSL_sk_num(names.cast()) {
                let name: *const GENERAL_NAME = OPENSSL_sk_value(names.cast(), index).cast();
                match (*name).type_ {
                    GEN_URI => {
                        let bytes = bytes_of((*name).d.uniformResourceIdentifier.cast());
                        are_plain &= bytes.iter().all(u8::is_ascii_graphic);
                        uris.push(String::from_utf8_lossy(bytes).into_owned());
                    }
                    GEN_DNS => {
                        let bytes = bytes_of((*name).d.dNSName.cast());
                        found.dns.push(String::from_utf8_lossy(bytes).into_owned());
                    }
                    _ => found.others += 1,
                }
            }
            GENERAL_NAMES_free(names.cast());
        }
        found.uris = are_plain.then_some(uris);
        found
    }

    /// Upper-case hexadecimal in whole bytes, as OpenSSL writes it.
    pub fn serial_number(&self) -> String {
        let (bytes, kind) = self.serial();
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let sign = if kind == V_ASN1_NEG_INTEGER { "-" } else { "" };
        match &bytes[zeros..] {
            [] => "0".into(),
            bytes => format!("{sign}{}", hex::upper(bytes)),
        }
    }

    /// Its magnitude, and its ASN.1 type.
    fn serial(&self) -> (&[u8], c_int) {
        // SAFETY: the number belongs to this certificate.
        unsafe {
            let number = X509_get0_serialNumber(self.as_ptr());
            (bytes_of(number), ASN1_STRING_type(number))
        }
    }

    /// Compares name, key identifier and key usage.
    pub fn may_be_issuer_of(&self, certificate: &Self) -> bool {
        // SAFETY: both are valid; the library guards its caches in them by internal locks.
        unsafe { X509_check_issued(self.as_ptr(), certificate.as_ptr()) == X509_V_OK }
    }

    pub fn has_signed(&self, certificate: &Self) -> bool {
        // SAFETY: both are valid; the key belongs to this certificate, and null is one that cannot be read.
        let has_signed = unsafe {
            let key = X509_get0_pubkey(self.as_ptr());
            !key.is_null() && X509_verify(certificate.as_ptr(), key) == 1
        };
        forget_errors();
        has_signed
    }

    pub fn has_name_of(&self, other: &Self) -> bool {
        // SAFETY: each name belongs to its certificate.
        unsafe {
            let (own, theirs) = (
                X509_get_subject_name(self.as_ptr()),
                X509_get_subject_name(other.as_ptr()),
            );
            X509_NAME_cmp(own, theirs) == 0
        }
    }

    pub fn has_key_of(&self, other: &Self) -> bool {
        // SAFETY: each key belongs to its certificate, and null is one that cannot be read.
        unsafe {
            let (own, theirs) = (
                X509_get0_pubkey(self.as_ptr()),
                X509_get0_pubkey(other.as_ptr()),
            );
            !own.is_null() && !theirs.is_null() && EVP_PKEY_cmp(own, theirs) == 1
        }
    }
}

/// A failure leaves entries in the thread's queue of errors, which the next caller of the library would find.
fn forget_errors() {
    // SAFETY: clears the queue of this thread.
    unsafe { ERR_clear_error() }
}

/// # Safety
/// `text` has to be valid while the bytes are used.
unsafe fn bytes_of<'a>(text: *const ASN1_STRING) -> &'a [u8] {
    // SAFETY: the caller says so; an empty one may have no bytes at all.
    unsafe {
        let (start, length): (*const c_uchar, c_int) =
            (ASN1_STRING_get0_data(text), ASN1_STRING_length(text));
        match usize::try_from(length) {
            Ok(length) if length > 0 && !start.is_null() => {
                std::slice::from_raw_parts(start, length)
            }
            _ => &[],
        }
    }
}

/// # Safety
/// `time` has to be valid.
unsafe fn milliseconds(time: *const ASN1_TIME) -> Option<f64> {
    let mut seconds = 0;
    // SAFETY: the caller says so.
    let is_time = unsafe { ASN1_TIME_to_posix(time, &raw mut seconds) } == 1;
    // Up to the year 9999: exact.
    is_time.then_some(seconds as f64 * 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::forge::{IDENTITY, Issuer};
    use super::*;

    #[test]
    fn a_leaf_says_what_was_written_into_it() {
        let der = Issuer::new("root", None).leaf(&[0x4a, 1]);
        let leaf = Certificate::parse(&der).expect("a certificate");
        let names = leaf.names();
        assert_eq!(names.uris, Some(vec![IDENTITY.into()]));
        assert_eq!((names.dns.len(), names.others), (0, 0));
        assert_eq!(leaf.serial_number(), "4A01");
        // 2026-01-01T00:00:00Z and 2026-12-31T23:59:59Z.
        assert_eq!(leaf.not_before(), 1_767_225_600_000.0);
        assert_eq!(leaf.not_after(), 1_798_761_599_000.0);
        assert!(leaf.serves_tls() && leaf.has_tls_key() && !leaf.is_ca());
        assert_eq!(leaf.der(), der);
    }

    #[test]
    fn serial_numbers_read_as_openssl_writes_them() {
        let root = Issuer::new("root", None);
        let cases: [(&[u8], &str); 4] = [
            (&[0], "0"),
            (&[1], "01"),
            (&[0, 0xff], "FF"),
            (&[0xff], "-01"),
        ];
        for (bytes, text) in cases {
            let leaf = Certificate::parse(&root.leaf(bytes)).expect("a certificate");
            assert_eq!(leaf.serial_number(), text);
        }
    }

    #[test]
    fn one_byte_more_or_less_is_no_certificate() {
        let der = Issuer::new("root", None).leaf(&[1]);
        let longer = [der.as_slice(), &[0]].concat();
        assert!(Certificate::parse(&longer).is_none());
        assert!((0..der.len()).all(|length| Certificate::parse(&der[..length]).is_none()));
    }

    #[test]
    fn no_changed_byte_makes_the_reader_panic() {
        let der = Issuer::new("root", None).leaf(&[1]);
        for index in 0..der.len() {
            for byte in [0, 1, 0x06, 0x1f, 0x30, 0x7f, 0x80, 0x84, 0xa0, 0xff] {
                let mut changed = der.clone();
                changed[index] = byte;
                if let Some(certificate) = Certificate::parse(&changed) {
                    certificate.serial_number();
                    certificate.names();
                    certificate.public_key_der();
                    certificate.has_tls_key();
                }
            }
        }
    }
}
