// SPDX-License-Identifier: Apache-2.0
// Data sets, pictures, canvases and batches.
#include "../../examples/detector/canvas.hpp"
#include "../../examples/detector/dataset.hpp"
#include "../../examples/detector/drawing.hpp"
#include "../../examples/detector/loader.hpp"
#include "picture_files.hpp"
#include "shapes.hpp"

#include <cstdlib>
#include <set>
#include <utility>

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
  const dataset without = read_dataset({folder / "ImageSets/Main/train.txt", ""});
  CHECK(without.boxes == 10);
  REQUIRE(without.dropped.size() == 1);
  CHECK(without.dropped[0] ==
        (folder / "Annotations/shapes_0.xml") + ": the box 5 6 5 9 has no area");
}

TEST_CASE("VOC: coordinates must be plain numbers") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 8);
  const std::string list = folder / "ImageSets/Main/train.txt";
  const auto write_xmin = [&](const std::string& xmin) {
    write(folder / "Annotations/shapes_0.xml",
          "<annotation><object><name>disc</name><bndbox><xmin>" + xmin +
              "</xmin><ymin>6</ymin><xmax>90</xmax><ymax>9</ymax></bndbox></object></annotation>");
    return read_dataset({list, ""});
  };
  for (const char* wrong : {"abc", "50,5", "0x20", "5 6", "", "1e400", "--5"}) {
    CAPTURE(wrong);
    const dataset data = write_xmin(wrong);
    CHECK(data.boxes == 10);
    REQUIRE(data.dropped.size() == 1);
    CHECK(data.dropped[0] == (folder / "Annotations/shapes_0.xml") + ": <xmin> is \"" + wrong +
                                 "\", expected a number");
  }
  CHECK(contains(write_xmin("nan").dropped.at(0), "is not finite"));
  const dataset data = write_xmin("\n 50.5 ");
  CHECK(data.dropped.empty());
  CHECK(data.pictures[0].objects.at(0).corners[0] == 50.5f);
}

TEST_CASE("VOC: a list holds names of pictures in the folder, in UTF-8") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 8);
  const std::string list = folder / "ImageSets/Main/train.txt";
  const auto error_with = [&](const std::string& text) {
    write(list, text);
    return error_of([&] { read_dataset({list, ""}); });
  };
  CHECK(error_with("shapes_0\r\n\nshapes_1\n").empty());
  CHECK(contains(error_with("shapes_0  1\nshapes_1 -1\n"),
                 "line 1 is \"shapes_0  1\", expected only a picture's name: this list is for one "
                 "class"));
  CHECK(contains(error_with("shapes_0\nshapes_1 -1\n"), "line 2 is \"shapes_1 -1\""));
  for (const char* outside : {"/etc/passwd", "../shapes_0", "a/../../shapes_0"}) {
    CAPTURE(outside);
    CHECK(contains(error_with(outside), "the picture \"" + std::string(outside) +
                                            "\" is not the name of a file in the picture "
                                            "folder"));
  }
  CHECK(contains(error_with("shapes_\xe4"), "train.txt: a line is not UTF-8: \"shapes_\\ufffd\""));
  write(folder / "Annotations/shapes_1.xml",
        "<annotation><object><name>caf\xe9</name><bndbox><xmin>5</xmin><ymin>6</ymin><xmax>9</xmax>"
        "<ymax>9</ymax></bndbox></object></annotation>");
  CHECK(contains(error_with("shapes_0\nshapes_1"),
                 "shapes_1.xml: the name of a class is not UTF-8: \"caf\\ufffd\""));
  std::filesystem::rename(folder / "Annotations/shapes_0.xml",
                          folder / "Annotations/two words.xml");
  CHECK(error_with("two words").empty());
}

TEST_CASE("VOC: errors name the problem") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 4);
  const std::string list = folder / "ImageSets/Main/train.txt";
  const auto error = [&] { return error_of([&] { read_dataset({list, ""}); }); };
  CHECK(error_of([&] {
          read_dataset({folder / "no.txt", ""});
        }) == (folder / "no.txt") + ": cannot be opened");
  CHECK(contains(error_of([&] {
                   read_dataset({folder / "list.csv", ""});
                 }),
                 "expected COCO annotations"));
  const auto other = [&] { read_dataset({list, ""}, {"disc"}); };
  CHECK(contains(error_of(other), "class \"square\" is not a class of the model"));
  write(folder / "Annotations/shapes_1.xml", "<annotation><object></object></annotation>");
  CHECK(contains(error(), "shapes_1.xml: an object without <xmin>"));
  write(folder / "Annotations/shapes_1.xml", "<annotation>");
  CHECK(contains(error(), "shapes_1.xml: not a VOC annotation"));
  for (const char* name : {"shapes_0", "shapes_1", "shapes_2"})
    write(folder / (std::string("Annotations/") + name + ".xml"), "<annotation/>");
  CHECK(contains(error(), "contains no boxes"));
  std::filesystem::remove_all(folder / "JPEGImages");
  CHECK(contains(error(), "no such folder of VOC's pictures"));
}

TEST_CASE("COCO: ids of images and categories, crowds, errors") {
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
  CHECK(contains(error(), "a box belongs to image 1, which does not exist"));
  write(file, head + R"({"image_id": 70, "category_id": 1, "bbox": [1, 2, 3, 4]})" + tail);
  CHECK(contains(error(), "a box belongs to category 1, which does not exist"));
  write(file, head + R"({"image_id": 70, "category_id": 9, "bbox": [1, 2, 3, 4, 5]})" + tail);
  CHECK(contains(error(), "a box of image 70 has 5 numbers, expected x, y, width and height"));
  write(file, head + R"({"image_id": 1e300, "category_id": 9, "bbox": [1, 2, 3, 4]})" + tail);
  CHECK(contains(error(), R"("image_id" is 1e+300, expected an integer)"));
  write(file, head + R"({"image_id": 70, "category_id": 9, "bbox": [1, 2, 0, 4]},
                        {"image_id": 70, "category_id": 9, "bbox": [1, 2, 3, 4]})" +
                  tail);
  CHECK(read_dataset({file, folder / "pictures"}).dropped.at(0) ==
        file + ": image 70: the box 1 2 1 6 has no area");
  write(file, head + tail);
  CHECK(contains(error(), "contains no boxes"));
  write(file, "{}");
  CHECK(contains(error(), "not COCO annotations"));
  const auto no_folder = [&] { read_dataset({file, folder / "no"}); };
  CHECK(contains(error_of(no_folder), "no such folder of pictures"));
  CHECK(contains(error_of([&] { read_dataset({file, ""}); }), "need the folder of the pictures"));
}

TEST_CASE("COCO: categories with equal names or ids, and pictures outside their folder") {
  const test::temporary_folder folder;
  std::filesystem::create_directories(folder / "pictures");
  const std::string file = folder / "instances.json";
  const auto error_with = [&](const std::string& picture, const std::string& categories) {
    write(file,
          R"({"images": [{"id": 1, "file_name": ")" + picture + R"("}], "categories": [)" +
              categories +
              R"(], "annotations": [{"image_id": 1, "category_id": 4, "bbox": [1, 2, 3, 4]}]})");
    return error_of([&] { read_dataset({file, folder / "pictures"}); });
  };
  const std::string cat = R"({"id": 4, "name": "cat"})";
  CHECK(error_with("train/a.png", cat).empty());
  CHECK(contains(error_with("a.png", cat + R"(, {"id": 7, "name": "cat"})"),
                 R"(the categories 4 and 7 have the same name, "cat")"));
  CHECK(contains(error_with("a.png", cat + R"(, {"id": 4, "name": "dog"})"),
                 "two categories have the id 4"));
  for (const char* outside : {"/etc/passwd", "../../x.jpg", "a/../..", "", "folder/"}) {
    CAPTURE(outside);
    CHECK(contains(error_with(outside, cat), "is not the name of a file in the picture folder"));
  }
}

TEST_CASE("pictures: sizes are checked before memory is allocated") {
  const test::temporary_folder folder;
  const auto error_and_peak = [&](const std::string& bytes) {
    test::write_bytes(folder / "a", bytes);
    std::string error;
    const long peak =
        test::peak_megabytes([&] { error = error_of([&] { read_picture(folder / "a"); }); });
    return std::make_pair(error, peak);
  };
  const std::string twelve_bytes("\x78\x9c\x63\x60\x60\x60\x00\x00\x00\x04\x00\x01", 12);
  REQUIRE(test::png_of(200'000, 200'000, twelve_bytes).size() == 69);
  const auto huge = error_and_peak(test::png_of(200'000, 200'000, twelve_bytes));
  CHECK(contains(
      huge.first,
      "a: its header states 200000 x 200000 pixels, expected at least 1 and at most 100000000"));
  CHECK(huge.second < 20);
  const auto empty = error_and_peak(test::png_of(9'000, 9'000, twelve_bytes));
  CHECK(contains(empty.first, "broken PNG: its 12 bytes of data are too few"));
  CHECK(empty.second < 20);
  // Enough data for 243 MB of pixels, except that the end is missing.
  const std::string whole = test::png_of(9'000, 9'000, std::string(300'000, 'x'));
  const auto truncated = error_and_peak(whole.substr(0, whole.size() - 20));
  CHECK(contains(truncated.first, "broken PNG: it ends too early"));
  CHECK(truncated.second < 20);

  picture small(64, 64);
  for (const bool is_progressive : {false, true}) {
    test::write_jpeg(small, folder / "small.jpg", "", is_progressive);
    const std::string jpeg = test::read_bytes(folder / "small.jpg");
    const std::size_t frame = jpeg.find(is_progressive ? "\xff\xc2" : "\xff\xc0");
    REQUIRE(frame != std::string::npos);
    const auto with_side = [&](std::uint32_t side) {
      std::string changed = jpeg;
      for (const std::size_t at : {frame + 5, frame + 7})
        changed.replace(at, 2, test::big_endian(side).substr(2));
      return changed;
    };
    const auto large = error_and_peak(with_side(65'000));
    CHECK(contains(large.first, "its header states 65000 x 65000 pixels"));
    CHECK(large.second < 20);
    const auto hollow = error_and_peak(with_side(9'000));
    CHECK(contains(hollow.first, "bytes are too few for the pixels that its header states"));
    CHECK(hollow.second < 20);
    // Long enough because of bytes after its data.
    const auto padded = error_and_peak(with_side(9'000) + std::string(300'000, 'x'));
    CHECK(contains(padded.first, "broken JPEG"));
    CHECK(padded.second < 20);
  }
  CHECK(contains(error_of([&] { read_picture("/dev/zero"); }), "it is not a regular file"));
}

TEST_CASE("pictures: EXIF's orientation is applied, in JPEG and PNG") {
  const test::temporary_folder folder;
  // A colour for each corner of the stored picture.
  enum corner { top_left, top_right, bottom_left, bottom_right };
  constexpr int width = 64, height = 32;
  picture stored(width, height);
  const auto colour = [](int c) {
    return std::array<int, 3>{c == top_left ? 250 : 5, c == top_right ? 250 : 5,
                              c == bottom_left ? 250 : 5};
  };
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int channel = 0; channel < 3; ++channel)
        stored.row(y)[3 * x + channel] = static_cast<std::uint8_t>(
            colour(2 * (y >= height / 2) + (x >= width / 2))[static_cast<std::size_t>(channel)]);
  write_png(stored, folder / "plain.png");
  const std::string plain = test::read_bytes(folder / "plain.png");
  const std::size_t behind_header = 8 + 25;

  // Exif 2.3, "Orientation": which corners of the stored picture appear at the top left and right.
  const std::pair<corner, corner> seen[8] = {
      {top_left, top_right},       {top_right, top_left},    {bottom_right, bottom_left},
      {bottom_left, bottom_right}, {top_left, bottom_left},  {bottom_left, top_left},
      {bottom_right, top_right},   {top_right, bottom_right}};
  for (int orientation = 0; orientation <= 9; ++orientation) {
    const bool is_valid = orientation >= 1 && orientation <= 8;
    const auto& expected = seen[is_valid ? orientation - 1 : 0];
    const bool swaps = is_valid && orientation >= 5;
    for (const bool is_little : {false, true}) {
      const std::string exif = test::exif_of(orientation, is_little);
      std::string png = plain;
      png.insert(behind_header, test::png_chunk("eXIf", exif));
      test::write_bytes(folder / "a.png", png);
      test::write_jpeg(stored, folder / "a.jpg", exif);
      for (const char* file : {"a.png", "a.jpg"}) {
        CAPTURE(orientation);
        CAPTURE(file);
        const picture image = read_picture(folder / file);
        REQUIRE(image.width == (swaps ? height : width));
        REQUIRE(image.height == (swaps ? width : height));
        CHECK(image.file_width == image.width);
        for (std::size_t channel = 0; channel < 3; ++channel) {
          CHECK(std::abs(image.row(3)[9 + channel] - colour(expected.first)[channel]) < 30);
          const std::size_t right = 3 * static_cast<std::size_t>(image.width - 4) + channel;
          CHECK(std::abs(image.row(3)[right] - colour(expected.second)[channel]) < 30);
        }
      }
    }
  }
  // Decoded at half its size, to fit into half of the upright picture's size.
  test::write_jpeg(stored, folder / "a.jpg", test::exif_of(6, true));
  const picture half = read_picture(folder / "a.jpg", height / 2, width / 2);
  CHECK(half.width == height / 2);
  CHECK(half.height == width / 2);
  CHECK(half.file_width == height);
  CHECK(half.file_height == width);
  // Data cut at any point.
  const std::string exif = test::exif_of(6, true);
  for (std::size_t size = 1; size < exif.size(); ++size) {
    test::write_jpeg(stored, folder / "a.jpg", exif.substr(0, size));
    CHECK_NOTHROW(read_picture(folder / "a.jpg"));
  }
}

TEST_CASE("pictures: PNG round trip; errors name broken files") {
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

TEST_CASE("canvas: a drawn object is where its box is") {
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
    // The border is a mixture within half a pixel of the picture.
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

TEST_CASE("canvas: boxes mostly outside are dropped, and so are crowds") {
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

TEST_CASE("loader: batches depend on the epoch, not on threads; ranks get shares") {
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

TEST_CASE("loader: a picture must have the size that its annotation states") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 4);
  const std::string list = folder / "ImageSets/Main/train.txt";
  write(list, "shapes_0\n");
  const std::string object =
      "<object><name>disc</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax>"
      "</bndbox></object></annotation>";
  const auto read = [&](const std::string& size) {
    write(folder / "Annotations/shapes_0.xml", "<annotation>" + size + object);
    return read_dataset({list, ""});
  };
  const auto error_with = [&](const dataset& data) {
    loader_params params;
    params.training = false;
    loader batches(data, params, 0);
    const batch found = batches.next();
    return found.broken.empty() ? "" : found.broken.at(0).second;
  };
  const auto size = [](const std::string& width, const std::string& height) {
    return "<size><width>" + width + "</width><height>" + height +
           "</height><depth>3</depth></size>";
  };
  const std::string start = (folder / "JPEGImages/shapes_0.png") +
                            ": the picture has 96 x 96 pixels, its annotation states ";
  for (const std::string& right : {std::string(), std::string("<size/>"), size("96", "96"),
                                   size(" 96\n", "96.0"), size("0", "0"), size("", "96")}) {
    CAPTURE(right);
    CHECK(error_with(read(right)).empty());
  }
  CHECK(error_with(read(size("192", "96"))) == start + "192 x 96");
  CHECK(error_with(read(size("96", "95"))) == start + "96 x 95");
  CHECK(error_with(read(size("", "95"))) == start + "? x 95");
  for (const char* wrong : {"wide", "-96", "96.5", "1e30", "nan"}) {
    CAPTURE(wrong);
    CHECK(contains(error_of([&] { read(size(wrong, "96")); }),
                   std::string("shapes_0.xml: <width> is \"") + wrong +
                       "\", expected the pixels of a picture"));
  }

  // Upright, a picture whose camera was turned has its sides exchanged.
  const auto coco = [&](const std::string& sides) {
    write(folder / "a.json", R"({"images": [{"id": 1, "file_name": "a.jpg")" + sides +
                                 R"(}], "categories": [{"id": 4, "name": "cat"}],
                "annotations": [{"image_id": 1, "category_id": 4, "bbox": [1, 2, 3, 4]}]})");
    return read_dataset({folder / "a.json", folder / "JPEGImages"});
  };
  test::write_jpeg(picture(64, 32), folder / "JPEGImages/a.jpg", test::exif_of(6, true));
  CHECK(error_with(coco("")).empty());
  CHECK(error_with(coco(R"(, "width": null)")).empty());
  CHECK(error_with(coco(R"(, "width": 32, "height": 64)")).empty());
  CHECK(contains(error_with(coco(R"(, "width": 64, "height": 32)")),
                 "a.jpg: the picture has 32 x 64 pixels, its annotation states 64 x 32; boxes must "
                 "refer to the picture turned upright by its EXIF orientation"));
  CHECK(contains(error_of([&] { coco(R"(, "width": -1)"); }),
                 R"("width" is -1, expected the pixels of a picture)"));
  CHECK(contains(error_of([&] { coco(R"(, "width": 32.5)"); }),
                 R"("width" is 32.5, expected an integer)"));
}

TEST_CASE("loader: an error if no picture can be read") {
  const test::temporary_folder folder;
  test::write_shapes(folder, 4);
  const dataset data = read_dataset({folder / "ImageSets/Main/train.txt", ""});
  std::filesystem::remove_all(folder / "JPEGImages");
  loader batches(data, {}, 0);
  CHECK(contains(error_of([&] { batches.next(); }), "no picture could be read; the first error: "));
}

TEST_CASE("drawing: frames in the class's colour, never outside the picture") {
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
