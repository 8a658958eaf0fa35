//! aws-lc's big numbers: the few calls that prime search and private exponents make, each safe to call. All are constant
//! time in aws-lc, except for the number of words.

use std::ptr::{NonNull, null_mut};

use aws_lc_sys::{
    BIGNUM, BN_CTX, BN_CTX_free, BN_CTX_new, BN_MONT_CTX, BN_MONT_CTX_free,
    BN_MONT_CTX_new_consttime, BN_bn2le_padded, BN_clear_free, BN_cmp, BN_gcd, BN_le2bn,
    BN_mod_exp_mont_consttime, BN_mod_mul_montgomery, BN_new, BN_to_montgomery,
};
use subtle::{Choice, ConstantTimeEq};

use super::natural::{self, Natural};
#[cfg(feature = "memcheck")]
use super::secrecy::{mark, public};
use crate::key_error::KeyError;

/// The three kinds of object are owned: made by one function, freed (and wiped) by another, and never null between.
pub struct Bignum(NonNull<BIGNUM>);
struct Scratch(NonNull<BN_CTX>);

/// An odd modulus.
pub struct Modulus {
    modulus: Bignum,
    montgomery: NonNull<BN_MONT_CTX>,
    scratch: Scratch,
}

fn failed(step: &'static str) -> impl Fn() -> KeyError {
    move || KeyError::Library(step)
}

fn checked(status: i32, step: &'static str) -> Result<(), KeyError> {
    if status == 1 {
        Ok(())
    } else {
        Err(KeyError::Library(step))
    }
}

impl Bignum {
    fn new() -> Result<Self, KeyError> {
        // SAFETY: takes nothing; null is an error.
        let number = unsafe { BN_new() };
        NonNull::new(number)
            .map(Self)
            .ok_or_else(failed("allocate a number"))
    }

    /// As many words wide as `natural`, whatever its value.
    pub fn from_natural(natural: &[u64]) -> Result<Self, KeyError> {
        let bytes = natural::to_bytes(natural);
        // SAFETY: reads `bytes.len()` bytes from `bytes`; allocates where the target is null.
        let number = unsafe { BN_le2bn(bytes.as_ptr(), bytes.len(), null_mut()) };
        NonNull::new(number)
            .map(Self)
            .ok_or_else(failed("allocate a number"))
    }

    /// Its value in `words` words, if it fits.
    pub fn to_natural(&self, words: usize) -> Result<Natural, KeyError> {
        let mut bytes = natural::to_bytes(&natural::zero(words));
        // SAFETY: writes `bytes.len()` bytes to `bytes`, or fails; the number is valid.
        let status = unsafe { BN_bn2le_padded(bytes.as_mut_ptr(), bytes.len(), self.as_ptr()) };
        checked(status, "read a number")?;
        Ok(natural::from_bytes(&bytes))
    }

    pub fn as_ptr(&self) -> *mut BIGNUM {
        self.0.as_ptr()
    }
}

impl ConstantTimeEq for Bignum {
    fn ct_eq(&self, other: &Self) -> Choice {
        // SAFETY: both numbers are valid.
        let order = unsafe { BN_cmp(self.as_ptr(), other.as_ptr()) };
        order.ct_eq(&0)
    }
}

impl Drop for Bignum {
    fn drop(&mut self) {
        // SAFETY: owned, and freed here alone.
        unsafe { BN_clear_free(self.as_ptr()) }
    }
}

impl Scratch {
    fn new() -> Result<Self, KeyError> {
        // SAFETY: takes nothing; null is an error.
        let scratch = unsafe { BN_CTX_new() };
        NonNull::new(scratch)
            .map(Self)
            .ok_or_else(failed("allocate a number"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: owned, and freed here alone.
        unsafe { BN_CTX_free(self.0.as_ptr()) }
    }
}

impl Modulus {
    pub fn new(odd: &[u64]) -> Result<Self, KeyError> {
        let modulus = Bignum::from_natural(odd)?;
        let scratch = Scratch::new()?;
        // aws-lc reveals the modulus's size here, which is public; memcheck would then treat every length as a secret.
        // SAFETY: the modulus is valid.
        #[cfg(feature = "memcheck")]
        unsafe {
            mark(modulus.as_ptr(), false);
        }
        // SAFETY: the modulus and the scratch memory are valid; null is an error.
        let montgomery = unsafe { BN_MONT_CTX_new_consttime(modulus.as_ptr(), scratch.0.as_ptr()) };
        let montgomery = NonNull::new(montgomery).ok_or_else(failed("prepare a modulus"))?;
        // SAFETY: the modulus and the context are valid.
        #[cfg(feature = "memcheck")]
        unsafe {
            mark(modulus.as_ptr(), true);
            mark(&raw const (*montgomery.as_ptr()).N, true);
            mark(&raw const (*montgomery.as_ptr()).RR, true);
        }
        Ok(Self {
            modulus,
            montgomery,
            scratch,
        })
    }

    /// base^exponent, for a base below the modulus.
    pub fn power(&self, base: &Bignum, exponent: &Bignum) -> Result<Bignum, KeyError> {
        let power = Bignum::new()?;
        // SAFETY: all numbers, the context made for this modulus and the scratch memory are valid.
        let status = unsafe {
            BN_mod_exp_mont_consttime(
                power.as_ptr(),
                base.as_ptr(),
                exponent.as_ptr(),
                self.modulus.as_ptr(),
                self.scratch.0.as_ptr(),
                self.montgomery.as_ptr(),
            )
        };
        checked(status, "exponentiate")?;
        Ok(power)
    }

    /// The form that `product` multiplies, for a number below the modulus.
    pub fn montgomery_form(&self, number: &Bignum) -> Result<Bignum, KeyError> {
        let form = Bignum::new()?;
        // SAFETY: the numbers, the context and the scratch memory are valid.
        let status = unsafe {
            BN_to_montgomery(
                form.as_ptr(),
                number.as_ptr(),
                self.montgomery.as_ptr(),
                self.scratch.0.as_ptr(),
            )
        };
        checked(status, "prepare a number")?;
        Ok(form)
    }

    /// The product, in Montgomery form like both factors.
    pub fn product(&self, a: &Bignum, b: &Bignum) -> Result<Bignum, KeyError> {
        let product = Bignum::new()?;
        // SAFETY: the numbers, the context and the scratch memory are valid.
        let status = unsafe {
            BN_mod_mul_montgomery(
                product.as_ptr(),
                a.as_ptr(),
                b.as_ptr(),
                self.montgomery.as_ptr(),
                self.scratch.0.as_ptr(),
            )
        };
        checked(status, "multiply")?;
        Ok(product)
    }
}

impl Drop for Modulus {
    fn drop(&mut self) {
        // SAFETY: owned, and freed here alone; the context holds no pointer to the other fields.
        unsafe { BN_MONT_CTX_free(self.montgomery.as_ptr()) }
    }
}

/// The greatest common divisor, in the words of `a`.
pub fn greatest_common_divisor(a: &[u64], b: &[u64]) -> Result<Natural, KeyError> {
    let divisor = Bignum::new()?;
    let (left, right) = (Bignum::from_natural(a)?, Bignum::from_natural(b)?);
    let scratch = Scratch::new()?;
    // SAFETY: the numbers and the scratch memory are valid.
    let status = unsafe {
        BN_gcd(
            divisor.as_ptr(),
            left.as_ptr(),
            right.as_ptr(),
            scratch.0.as_ptr(),
        )
    };
    checked(status, "find the greatest common divisor")?;
    // SAFETY: the number is valid. Its size is as good as public: it divides n - 1.
    #[cfg(feature = "memcheck")]
    unsafe {
        (*divisor.as_ptr()).width = public((*divisor.as_ptr()).width);
    }
    divisor.to_natural(a.len())
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;

    use super::*;
    use crate::rsa::natural::tests::{big, natural};
    use crate::rsa::random::tests::Seeded;

    #[test]
    fn powers_and_products_agree_with_an_independent_library() {
        let mut random = Seeded::new(3);
        for words in [1, 2, 16, 24, 32] {
            let mut odd = random.natural(words);
            odd[0] |= 1;
            odd[words - 1] |= 1 << 63;
            let modulus = Modulus::new(&odd).expect("a modulus");
            let exponent = random.natural(words);
            let base = natural(&(big(&random.natural(words)) % big(&odd)), words);
            let number = |natural: &[u64]| Bignum::from_natural(natural).expect("a number");
            let power = modulus
                .power(&number(&base), &number(&exponent))
                .expect("a power");
            assert_eq!(
                big(&power.to_natural(words).expect("its words")),
                big(&base).modpow(&big(&exponent), &big(&odd))
            );
            let form = modulus.montgomery_form(&number(&base)).expect("its form");
            let r = BigUint::from(1_u32) << (64 * words);
            let square = modulus.product(&form, &form).expect("its square");
            assert_eq!(
                big(&square.to_natural(words).expect("its words")),
                big(&base) * big(&base) * r % big(&odd)
            );
        }
    }

    #[test]
    fn the_greatest_common_divisor_is_found() {
        let divisor = greatest_common_divisor(&[12, 0], &[0, 6]).expect("a divisor");
        assert_eq!(*divisor, [12, 0]);
        let divisor = greatest_common_divisor(&[35], &[64]).expect("a divisor");
        assert_eq!(*divisor, [1]);
    }

    #[test]
    fn an_even_modulus_and_a_number_too_long_are_errors() {
        assert!(Modulus::new(&[6]).is_err());
        let long = Bignum::from_natural(&[1, 2]).expect("a number");
        assert!(long.to_natural(1).is_err());
    }
}
