//! Certificate signing requests: PKCS#10 (RFC 2986) as X.509 SVIDs want it, with an empty subject and one critical
//! URI SAN, <https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md>.

use crate::der::{BIT_STRING, INTEGER, OCTET_STRING, SEQUENCE, SET, element};

/// 1.2.840.113549.1.9.14 (RFC 2985, section 5.4.2), with tag and length.
const EXTENSION_REQUEST: &[u8] = &[
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e,
];
/// 2.5.29.17 (RFC 5280, section 4.2.1.6), with tag and length.
const SUBJECT_ALT_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x11];
const CRITICAL: &[u8] = &[0x01, 0x01, 0xff];
/// `uniformResourceIdentifier [6] IA5String` of GeneralName.
const URI: u8 = 0x86;
/// `attributes [0]` of CertificationRequestInfo.
const ATTRIBUTES: u8 = 0xa0;

/// What the key's owner signs: the CertificationRequestInfo for `identity` (ASCII) and a SubjectPublicKeyInfo.
pub fn request_info(identity: &str, public_key_der: &[u8]) -> Vec<u8> {
    let names = element(SEQUENCE, &[&element(URI, &[identity.as_bytes()])]);
    let san = element(
        SEQUENCE,
        &[
            SUBJECT_ALT_NAME,
            CRITICAL,
            &element(OCTET_STRING, &[&names]),
        ],
    );
    let extensions = element(SET, &[&element(SEQUENCE, &[&san])]);
    let attribute = element(SEQUENCE, &[EXTENSION_REQUEST, &extensions]);
    let version = element(INTEGER, &[&[0]]);
    let empty_subject = element(SEQUENCE, &[]);
    element(
        SEQUENCE,
        &[
            &version,
            &empty_subject,
            public_key_der,
            &element(ATTRIBUTES, &[&attribute]),
        ],
    )
}

/// The whole request; `algorithm` is a DER AlgorithmIdentifier.
pub fn signed_request(request_info: &[u8], algorithm: &[u8], signature: &[u8]) -> Vec<u8> {
    let no_unused_bits = &[0];
    element(
        SEQUENCE,
        &[
            request_info,
            algorithm,
            &element(BIT_STRING, &[no_unused_bits, signature]),
        ],
    )
}
