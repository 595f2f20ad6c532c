// SPDX-License-Identifier: Apache-2.0
// NMS from Go with cgo: go run examples/go/detect.go, with CGO_CFLAGS=-I<include> and
// CGO_LDFLAGS=-L<folder of libvecdet> where it is not installed.
package main

// #cgo LDFLAGS: -lvecdet
// #include <vecdet/c.h>
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// nms returns the indices of the boxes (x1 y1 x2 y2) that NMS keeps, in descending score.
func nms(boxes [][4]float32, scores []float32) ([]int64, error) {
	if len(boxes) == 0 || len(boxes) != len(scores) {
		return nil, errors.New("expected one score per box")
	}
	runtime.LockOSThread() // the text of an error belongs to the thread
	defer runtime.UnlockOSThread()
	kept := make([]int64, len(boxes))
	var count C.int64_t
	status := C.vecdet_nms(C.VECDET_FLOAT32, unsafe.Pointer(&boxes[0]), unsafe.Pointer(&scores[0]),
		C.int64_t(len(boxes)), nil, nil, (*C.int64_t)(&kept[0]), &count)
	if status != C.VECDET_OK {
		return nil, errors.New(C.GoString(C.vecdet_last_error()))
	}
	return kept[:count], nil
}

func main() {
	fmt.Println(nms([][4]float32{{0, 0, 10, 10}, {1, 0, 11, 10}, {20, 0, 30, 10}}, []float32{0.8, 0.9, 0.7}))
}
