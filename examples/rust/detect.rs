// SPDX-License-Identifier: Apache-2.0
// NMS from Rust, without a binding generator:
//   rustc -O -L <folder of libvecdet> examples/rust/detect.rs && ./detect
use std::ffi::CStr;
use std::os::raw::{c_char, c_int};
use std::ptr;

const FLOAT32: c_int = 0; // vecdet_dtype

#[link(name = "vecdet")]
extern "C" {
    fn vecdet_last_error() -> *const c_char;
    fn vecdet_batched_nms(
        dtype: c_int, boxes: *const f32, scores: *const f32, classes: *const i64,
        images: *const i64, count: i64, params: *const u8, workspace: *mut u8, kept: *mut i64,
        kept_count: *mut i64,
    ) -> c_int;
}

/// The indices of the boxes (x1 y1 x2 y2) that NMS per class keeps, in descending score.
fn batched_nms(boxes: &[[f32; 4]], scores: &[f32], classes: &[i64]) -> Result<Vec<i64>, String> {
    assert!(boxes.len() == scores.len() && boxes.len() == classes.len());
    let mut kept = vec![0i64; boxes.len()];
    let mut count = 0i64;
    let status = unsafe {
        vecdet_batched_nms(FLOAT32, boxes.as_ptr() as *const f32, scores.as_ptr(), classes.as_ptr(),
            ptr::null(), boxes.len() as i64, ptr::null(), ptr::null_mut(), kept.as_mut_ptr(), &mut count)
    };
    if status != 0 {
        let text = unsafe { CStr::from_ptr(vecdet_last_error()) };
        return Err(text.to_string_lossy().into_owned());
    }
    kept.truncate(count as usize);
    Ok(kept)
}

fn main() -> Result<(), String> {
    let boxes = [[0., 0., 10., 10.], [1., 0., 11., 10.], [1., 0., 11., 10.]];
    println!("kept {:?}", batched_nms(&boxes, &[0.8, 0.9, 0.7], &[3, 3, 5])?);
    Ok(())
}
