// SPDX-License-Identifier: Apache-2.0
// Data sets, pictures, canvases and batches.
#include "../../examples/detector/canvas.hpp"
#include "../../examples/detector/dataset.hpp"
#include "../../examples/detector/drawing.hpp"
#include "../../examples/detector/loader.hpp"
#include "shapes.hpp"

#include <cstdlib>
#include <set>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

using namespace detector;
using test::contains;
using test::error_of;

namespace {

void write(const std::string& file, const std::string& text) { std::ofstream(file) << text; }

}  // namespace

TEST_CASE("VOC: lists, objects, classes by name") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 8);
  const dataset data = read_dataset({folder / "ImageSets/Main/train.txt", ""});
  CHECK(data.pictures.size() == 6);
  CHECK(data.boxes == 12);
  CHECK((data.classes == std::vector<std::string>{"disc", "square"}));
  for (const annotated_picture& picture : data.pictures) {
    CHECK(picture.objects.size() == 2);
    CHECK(read_picture(picture.file).width == 96);
  }

  write(folder / "Annotations/shapes_0.xml",
        "<annotation><object><name>disc</name><bndbox><xmin>5</xmin><ymin>6</ymin><xmax>5</xmax>"
        "<ymax>9</ymax></bndbox></object></annotation>");
  CHECK(read_dataset({folder / "ImageSets/Main/train.txt", ""}).boxes_dropped == 1);
}

TEST_CASE("VOC: what is wrong is named") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 4);
  const std::string list = folder / "ImageSets/Main/train.txt";
  const auto error = [&] { return error_of([&] { read_dataset({list, ""}); }); };
  CHECK(error_of([&] {
          read_dataset({folder / "no.txt", ""});
        }) == (folder / "no.txt") + ": cannot be opened");
  CHECK(contains(error_of([&] { read_dataset({folder / "list.csv", ""}); }), "expected COCO's"));
  const auto other = [&] { read_dataset({list, ""}, {"disc"}); };
  CHECK(contains(error_of(other), "class \"square\" is none of the model's classes"));
  write(folder / "Annotations/shapes_1.xml", "<annotation><object></object></annotation>");
  CHECK(contains(error(), "shapes_1.xml: an object without <xmin>"));
  write(folder / "Annotations/shapes_1.xml", "<annotation>");
  CHECK(contains(error(), "shapes_1.xml: no VOC annotation"));
  for (const char* name : {"shapes_0", "shapes_1", "shapes_2"})
    write(folder / (std::string("Annotations/") + name + ".xml"), "<annotation/>");
  CHECK(contains(error(), "there is no box in any picture"));
  std::filesystem::remove_all(folder / "JPEGImages");
  CHECK(contains(error(), "no such folder of VOC's pictures"));
}

TEST_CASE("COCO: ids of images and categories, crowds, what is wrong") {
  const test::temporary_folder folder;
  const std::string file = folder / "instances.json";
  std::filesystem::create_directories(folder / "pictures");
  const std::string head =
      R"({"images": [{"id": 70, "file_name": "a.png", "width": 9, "height": 9}],
          "categories": [{"id": 9, "name": "cat"}, {"id": 4, "name": "dog"}], "annotations": [)";
  const std::string tail = "]}";
  write(file, head + R"({"image_id": 70, "category_id": 9, "bbox": [1, 2, 3, 4]},
                        {"image_id": 70, "category_id": 4, "bbox": [0, 0, 9, 9], "iscrowd": 1})" +
                  tail);
  const dataset data = read_dataset({file, folder / "pictures"});
  CHECK((data.classes == std::vector<std::string>{"dog", "cat"}));
  CHECK((data.category_ids == std::vector<std::int64_t>{4, 9}));
  REQUIRE(data.pictures.size() == 1);
  CHECK(data.pictures[0].id == 70);
  CHECK(data.pictures[0].file == folder / "pictures/a.png");
  CHECK(data.boxes == 1);
  REQUIRE(data.pictures[0].objects.size() == 2);
  CHECK(data.pictures[0].objects[0].label == 1);
  CHECK((data.pictures[0].objects[0].corners == box{1, 2, 4, 6}));
  CHECK(data.pictures[0].objects[1].crowd);

  const auto error = [&] { return error_of([&] { read_dataset({file, folder / "pictures"}); }); };
  write(file, head + R"({"image_id": 1, "category_id": 9, "bbox": [1, 2, 3, 4]})" + tail);
  CHECK(contains(error(), "a box of image 1, which is none"));
  write(file, head + R"({"image_id": 70, "category_id": 1, "bbox": [1, 2, 3, 4]})" + tail);
  CHECK(contains(error(), "a box of category 1, which is none"));
  write(file, head + tail);
  CHECK(contains(error(), "there is no box in any picture"));
  write(file, "{}");
  CHECK(contains(error(), "no COCO annotations"));
  const auto no_folder = [&] { read_dataset({file, folder / "no"}); };
  CHECK(contains(error_of(no_folder), "no such folder of pictures"));
  CHECK(contains(error_of([&] { read_dataset({file, ""}); }), "need the folder of their pictures"));
}

TEST_CASE("pictures: PNG goes there and back, broken ones are named") {
  const test::temporary_folder folder;
  picture image(5, 3);
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<std::uint8_t>(7 * i);
  write_png(image, folder / "a.png");
  CHECK(read_picture(folder / "a.png").pixels == image.pixels);
  std::filesystem::resize_file(folder / "a.png", 40);
  CHECK(contains(error_of([&] { read_picture(folder / "a.png"); }), "a.png: broken PNG"));
  write(folder / "b.jpg", "\xff\xd8\xff\xe0 no more");
  CHECK(contains(error_of([&] { read_picture(folder / "b.jpg"); }), "b.jpg: broken JPEG"));
  write(folder / "c.jpg", "text");
  CHECK(contains(error_of([&] { read_picture(folder / "c.jpg"); }), "c.jpg: no JPEG or PNG"));
  CHECK(contains(error_of([&] { read_picture(folder / "d.jpg"); }), "d.jpg: cannot be opened"));
  CHECK(contains(error_of([&] { write_png(image, folder / "no/a.png"); }), "cannot be written"));
}

TEST_CASE("canvas: what is drawn lies where its box is") {
  picture image(40, 20);
  for (int y = 5; y < 10; ++y)
    for (int x = 8; x < 16; ++x) std::fill_n(image.row(y) + 3 * x, 3, std::uint8_t{255});
  const canvas_size canvas{64, 64};
  const augmentation changes{0.5, 0.5, 0.8, 2.0};
  std::set<bool> flips;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    random_source random{seed};
    const placement place = placement::random(40, 20, canvas, changes, random);
    flips.insert(place.flip_horizontal);
    std::vector<float> planes(3 * 64 * 64);
    draw_on_canvas(image, place, canvas, planes.data());
    const box b = place.onto_canvas({8, 5, 16, 10});
    // Half a pixel of the picture at the border is a mixture.
    const auto margin = static_cast<float>(place.scale / 2 + 1);
    const float white = (1 - colour_mean[0]) / colour_deviation[0];
    const float black = -colour_mean[0] / colour_deviation[0];
    int inside = 0;
    for (int y = 0; y < 64; ++y)
      for (int x = 0; x < 64; ++x) {
        const float cx = static_cast<float>(x) + 0.5f, cy = static_cast<float>(y) + 0.5f;
        const float colour = planes[static_cast<std::size_t>(64 * y + x)];
        const bool is_in =
            cx > b[0] + margin && cx < b[2] - margin && cy > b[1] + margin && cy < b[3] - margin;
        const bool is_out =
            cx < b[0] - margin || cx > b[2] + margin || cy < b[1] - margin || cy > b[3] + margin;
        inside += is_in;
        if (is_in) REQUIRE(colour == doctest::Approx(white));
        if (is_out) REQUIRE((colour == 0 || colour == doctest::Approx(black)));
      }
    if (b[0] > 0 && b[1] > 0 && b[2] < 64 && b[3] < 64) CHECK(inside > 0);
  }
  CHECK(flips.size() == 2);
  const placement fitted = placement::fitted(40, 20, canvas);
  CHECK(fitted.scale == 1.6);
  const box there = fitted.onto_picture(fitted.onto_canvas({1, 2, 3, 4}));
  for (std::size_t k = 0; k < 4; ++k)
    CHECK(there[k] == doctest::Approx(static_cast<double>(k + 1)));
}

TEST_CASE("canvas: boxes that are mostly outside are none, nor are crowds") {
  placement place;
  place.left = -10;
  const std::vector<object> objects{{{0, 0, 12, 8}, 0, false},
                                    {{0, 0, 16, 8}, 1, false},
                                    {{12, 0, 20, 8}, 2, true},
                                    {{40, 0, 50, 8}, 3, false}};
  const auto visible = objects_on_canvas(objects, place, {32, 32});
  REQUIRE(visible.size() == 1);
  CHECK(visible[0].label == 1);
  CHECK((visible[0].corners == box{0, 0, 6, 8}));
}

TEST_CASE(
    "loader: the same batches whatever the threads, other ones every epoch, shares of ranks") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 24);
  const dataset data = read_dataset({folder / "ImageSets/Main/train.txt", ""});
  loader_params params;
  params.canvas = {64, 64};
  params.batch_size = 4;
  params.changes = {0.5, 0.5, 0.7, 1.3};
  const auto epoch = [&](std::size_t threads, std::uint64_t number, std::size_t first = 0) {
    params.threads = threads;
    loader batches(data, params, number, first);
    std::vector<at::Tensor> images;
    for (std::size_t b = first; b < batches.batches(); ++b) images.push_back(batches.next().images);
    return at::cat(images);
  };
  const at::Tensor one = epoch(1, 0);
  CHECK(one.size(0) == 16);  // of 18 pictures: full batches alone
  CHECK(at::equal(one, epoch(4, 0)));
  CHECK_FALSE(at::equal(one, epoch(1, 1)));
  CHECK(at::equal(one.slice(0, 8), epoch(3, 0, 2)));  // from the third batch on

  params.batch_size = 2;
  params.ranks = 2;
  const at::Tensor first_share = epoch(2, 0);
  params.rank = 1;
  const at::Tensor second_share = epoch(2, 0);
  CHECK(at::equal(one.slice(0, 0, 2), first_share.slice(0, 0, 2)));
  CHECK(at::equal(one.slice(0, 2, 4), second_share.slice(0, 0, 2)));
}

TEST_CASE("loader: a broken picture is replaced in training and left out in evaluation") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 12);
  const dataset data = read_dataset({folder / "ImageSets/Main/train.txt", ""});
  write(data.pictures[2].file, "no picture");
  loader_params params;
  params.canvas = {64, 64};
  params.batch_size = 3;
  std::size_t broken = 0, pictures = 0;
  {
    loader batches(data, params, 0);
    for (std::size_t b = 0; b < batches.batches(); ++b) {
      const batch content = batches.next();
      CHECK(content.images.size(0) == 3);
      for (const auto& drawn : content.pictures) CHECK(drawn.index != 2);
      for (const auto& one : content.broken) {
        CHECK(one.first == 2);
        CHECK(contains(one.second, "no JPEG or PNG"));
      }
      broken += content.broken.size();
    }
    CHECK(broken >= 1);
  }
  params.training = false;
  params.batch_size = 4;
  loader batches(data, params, 0);
  for (std::size_t b = 0; b < batches.batches(); ++b) {
    const batch content = batches.next();
    CHECK(content.images.size(0) == static_cast<std::int64_t>(content.pictures.size()));
    pictures += content.pictures.size();
  }
  CHECK(pictures == data.pictures.size() - 1);
}

TEST_CASE("loader: where no picture can be read it says so") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 4);
  const dataset data = read_dataset({folder / "ImageSets/Main/train.txt", ""});
  std::filesystem::remove_all(folder / "JPEGImages");
  loader batches(data, {}, 0);
  CHECK(contains(error_of([&] { batches.next(); }), "no picture could be read; the first: "));
}

TEST_CASE("drawing: frames in the class's colour, never outside of the picture") {
  picture image(50, 40);
  draw_box(image, {10, 20, 30, 35}, 0, "a");
  const auto red = colour_of(0);
  CHECK((red == std::array<std::uint8_t, 3>{255, 0, 0}));
  CHECK(std::equal(red.begin(), red.end(), image.row(34) + 3 * 20));
  CHECK(image.row(30)[3 * 20] == 0);
  draw_box(image, {-1e30f, -5, 1e30f, 100}, 1, "long text that does not fit");
  draw_box(image, {48, 39, 49, 40}, 2, "Z9%");
  CHECK(colour_of(1) != colour_of(2));
}
