// SPDX-License-Identifier: Apache-2.0
// The charts of the HTML report: roofline, histogram, nesting, and the comparison of two profiles.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

inline constexpr char html_charts[] = R"html(
const lg=Math.log10;
function decades(lo,hi){const t=[];for(let d=Math.ceil(lo-1e-9);d<=hi+1e-9;d++)t.push(d);return t}
const short=d=>d>=6?'1e'+d:d>=3?(10**(d-3))+'k':d>=0?String(10**d):(10**d).toFixed(-d);

/* roofline: operations per second over operations per byte, both logarithmic */
function roofline(){
  const pts=E.filter(e=>e.gigaflops_per_second>0&&e.intensity>0);
  const known=M.memory_gbs>0&&M.gflops_f32>0;
  const onlyBytes=E.filter(e=>e.bytes>0&&!(e.flops>0)).length;
  $('roofline-note').textContent=pts.length?
    'Operations per second over operations per byte; the area shows the share of time.'+(onlyBytes?' '+onlyBytes+' more only move bytes.':''):
    'No problem has both bytes and operations.';
  if(!pts.length){$('roofline').innerHTML='';return}
  const W=560,H=360,L=46,R=14,T=14,B=38;
  const xs=pts.map(e=>lg(e.intensity)),ys=pts.map(e=>lg(e.gigaflops_per_second));
  let x0=Math.floor(Math.min(...xs,-1)),x1=Math.ceil(Math.max(...xs,2)),y0=Math.floor(Math.min(...ys,1)),
    y1=Math.ceil(Math.max(...ys,known?lg(M.gflops_f32_all_threads||M.gflops_f32):1)+.05);
  y0=Math.max(y0,y1-6);
  const X=v=>L+(v-x0)/(x1-x0)*(W-L-R),Y=v=>H-B-(v-y0)/(y1-y0)*(H-T-B);
  let s='<svg viewBox="0 0 '+W+' '+H+'" role="img" aria-label="Roofline">';
  for(const d of decades(x0,x1))s+='<line class="axis" x1="'+X(d)+'" x2="'+X(d)+'" y1="'+T+'" y2="'+(H-B)+'"/><text x="'+X(d)+'" y="'+(H-B+16)+'" text-anchor="middle">'+short(d)+'</text>';
  for(const d of decades(y0,y1))s+='<line class="axis" x1="'+L+'" x2="'+(W-R)+'" y1="'+Y(d)+'" y2="'+Y(d)+'"/><text x="'+(L-7)+'" y="'+(Y(d)+4)+'" text-anchor="end">'+short(d)+'</text>';
  s+='<text x="'+((L+W-R)/2)+'" y="'+(H-4)+'" text-anchor="middle">operations per byte</text><text transform="translate(11 '+((H-B+T)/2)+') rotate(-90)" text-anchor="middle">GFLOP/s</text>';
  s+='<clipPath id="plot"><rect x="'+L+'" y="'+T+'" width="'+(W-L-R)+'" height="'+(H-T-B)+'"/></clipPath><g clip-path="url(#plot)"'+(pts.length>300?' class="many"':'')+'>';
  const roof=(bw,peak,color,dash)=>{if(!(bw>0&&peak>0))return;const k=lg(peak/bw);
    s+='<path class="roof" style="stroke:'+color+'" stroke-dasharray="'+dash+'" d="M'+X(x0)+' '+Y(x0+lg(bw))+'L'+X(k)+' '+Y(lg(peak))+'L'+X(x1)+' '+Y(lg(peak))+'"/>'};
  if(known){
    roof(M.cache_gbs_all_threads,M.gflops_f32_all_threads,'var(--cache)','');roof(M.memory_gbs_all_threads,M.gflops_f32_all_threads,'var(--memory)','');
    if(M.threads>1){roof(M.cache_gbs,M.gflops_f32,'var(--cache)','4 4');roof(M.memory_gbs,M.gflops_f32,'var(--memory)','4 4')}
  }
  const color=e=>({memory:'var(--memory)',cache:'var(--cache)',compute:'var(--compute)'}[e.roofline_bound]||'var(--faint)');
  for(const e of pts.slice().sort((a,b)=>b.share-a.share)){const r=(pts.length>300?2.5:3.5)+16*Math.sqrt(Math.min(1,e.share));
    s+='<circle class="dot'+(e===selected?' on':'')+'" data-i="'+e.i+'" cx="'+X(lg(e.intensity))+'" cy="'+Y(lg(e.gigaflops_per_second))+'" r="'+r.toFixed(1)+
    '" style="fill:'+color(e)+';stroke:'+color(e)+'" data-tip="'+esc(e.name+': '+rate(e.gigaflops_per_second)+' GFLOP/s, '+rate(e.gigabytes_per_second)+' GB/s'+
    (e.roofline_percent>0?', '+e.roofline_percent.toFixed(0)+' % of the '+e.roofline_bound+' bound':''))+'"/>'}
  s+='</g></svg>';
  const key=(c,t)=>'<span><i style="background:'+c+'"></i>'+t+'</span>';
  $('roofline').innerHTML=s+'<div class="key">'+(known?key('var(--memory)','memory '+digits(M.memory_gbs_all_threads)+' GB/s')+
    key('var(--cache)','cache '+digits(M.cache_gbs_all_threads)+' GB/s')+key('var(--compute)','compute '+digits(M.gflops_f32_all_threads)+' GFLOP/s')+
    (M.threads>1?'<span>dashed: one thread</span>':''):'<span>This machine was not measured: no ceilings.</span>')+'</div>';
}

/* histogram of one problem's calls; buckets of the profile are merged to what can be seen */
function histogram(e,width,height){
  const h=e.histogram;if(!h.length)return '';
  /* the profile keeps 32 buckets to a doubling: the next bound */
  const next=v=>v<64?v+1:v+2**(Math.floor(Math.log2(v))-5);
  const W=width,H=height,B=26,T=22,half=.5;
  let lo=Math.max(h[0][0],half),hi=next(h[h.length-1][0]);
  if(hi/lo<1.5){const m=Math.sqrt(hi*lo);lo=m/1.25;hi=m*1.25}
  const N=Math.max(12,Math.min(64,Math.round(Math.log2(hi/lo)*12))),bins=new Array(N).fill(0);
  const at=v=>(Math.log(Math.max(v,half)/lo)/Math.log(hi/lo))*N;
  for(const [v,n] of h){const a=Math.max(0,at(v)),b=Math.min(N,Math.max(at(next(v)),a+1e-6));
    for(let i=Math.floor(a);i<b&&i<N;i++)bins[i]+=n*(Math.min(b,i+1)-Math.max(a,i))/(b-a)}
  const most=Math.max(...bins,1e-9),X=i=>i/N*W;
  let s='<svg viewBox="0 0 '+W+' '+H+'" style="margin-top:12px" role="img" aria-label="Durations">';
  bins.forEach((n,i)=>{if(n>0){const y=Math.max(1.5,(H-B-T)*n/most);s+='<rect x="'+(X(i)+.5)+'" width="'+Math.max(1,W/N-1)+'" y="'+(H-B-y)+'" height="'+y+
    '" rx="1.5" fill="var(--bar)" data-tip="'+esc(time(lo*(hi/lo)**(i/N))+' to '+time(lo*(hi/lo)**((i+1)/N))+': about '+Math.round(n)+' calls')+'"/>'}});
  s+='<line class="axis" x1="0" x2="'+W+'" y1="'+(H-B)+'" y2="'+(H-B)+'"/>';
  const marks=[[e.p50_ns,'p50','var(--ink)']];
  if(at(e.p99_ns)-at(e.p50_ns)>.5)marks.push([e.p99_ns,'p99','var(--warm)']);else marks[0][1]='p50, p99';
  /* names stand above the bars, one below the other where the marks are close */
  const close=marks.length>1&&Math.abs(X(at(marks[1][0]))-X(at(marks[0][0])))<60;
  for(const [v,t,c] of marks){const x=Math.min(W,Math.max(0,X(at(v)))),y=t==='p99'&&close?18:6;
    s+='<line x1="'+x+'" x2="'+x+'" y1="'+(y-6)+'" y2="'+(H-B)+'" stroke="'+c+'" stroke-dasharray="3 3"/>'+
    '<text x="'+(x>W-40?x-4:x+4)+'" y="'+(y+2)+'" text-anchor="'+(x>W-40?'end':'start')+'" style="fill:'+c+'">'+t+'</text>'}
  const ticks=4;for(let i=0;i<=ticks;i++)s+='<text x="'+(W*i/ticks)+'" y="'+(H-8)+'" text-anchor="'+(i===0?'start':i===ticks?'end':'middle')+'">'+time(lo*(hi/lo)**(i/ticks))+'</text>';
  return s+'</svg>';
}

function detail(){
  const e=selected;if(!e){$('detail').innerHTML='<p class="soft">Nothing recorded.</p>';return}
  $('detail-title').innerHTML=esc(split(e)[0]);
  const f=[[big(e.count),'calls'],[percent(e.share),'of the whole'],[time(e.self_ns),'self'],[time(e.inclusive_ns),'inclusive'],
    [time(e.min_ns),'min'],[time(e.mean_ns),'mean'],[time(e.stddev_ns),'std deviation'],[time(e.p50_ns),'p50'],[time(e.p90_ns),'p90'],[time(e.p99_ns),'p99'],[time(e.max_ns),'max'],
    [rate(e.gigabytes_per_second),'GB/s'],[rate(e.gigaflops_per_second),'GFLOP/s'],[rate(e.intensity),'operations per byte'],
    [e.roofline_percent>0?e.roofline_percent.toFixed(0)+' %':'–',e.roofline_bound?'of the '+e.roofline_bound+' bound':'of bound'],[e.concurrency.toFixed(1),'callers at a time']];
  $('detail').innerHTML='<p class="soft" style="overflow-wrap:anywhere">'+esc(split(e)[1].slice(split(e)[1][0]==='/'?1:0)||'a scope')+'</p><div class="facts">'+
    f.map(x=>'<div><b class="num">'+esc(x[0])+'</b><span>'+esc(x[1])+'</span></div>').join('')+'</div>'+histogram(e,560,170);
}

/* nesting: one box a path, below the path it is in */
let zoom='';
function flame(){
  const nodes=new Map([['',{key:'',total:0,kids:[],depth:0}]]);
  for(const p of PROFILE.paths.slice().sort((a,b)=>a.entries.length-b.entries.length)){
    const key=p.entries.join(','),up=p.entries.slice(0,-1).join(',');
    const n={key,entry:p.entries[p.entries.length-1],total:p.total_ns,count:p.count,self:p.self_ns,kids:[],parent:up};
    nodes.set(key,n);(nodes.get(up)||nodes.get('')).kids.push(n)}
  const root=nodes.get('');root.total=sum(root.kids,k=>k.total);
  $('flame-section').hidden=!PROFILE.paths.some(p=>p.entries.length>1);
  const start=nodes.get(zoom)||root,boxes=[],row=24;let deep=0;
  const by=new Map(E.map(e=>[e.i,e]));
  const put=(n,x,w,d)=>{deep=Math.max(deep,d);
    if(n.key!==''){const e=by.get(n.entry);let hue=0;for(const c of e.function||e.name)hue=(hue*31+c.charCodeAt(0))%360;
      boxes.push('<div'+(w<.4?' class="thin"':'')+' data-path="'+n.key+'" data-i="'+n.entry+'" style="left:'+x+'%;width:'+w+'%;top:'+d*row+'px;background:hsl('+(195+hue%75)+' '+(60+hue%25)+'% '+(72+hue%12)+'%)" data-tip="'+
      esc(e.name+': '+time(n.total)+', itself '+time(n.self)+', '+big(n.count)+' calls')+'">'+(w>1.5?esc(split(e)[0]):'')+'</div>')}
    else boxes.push('<div class="rest" style="left:0;width:100%;top:0">all: '+time(n.total)+'</div>');
    let at=x;const scale=w/Math.max(n.total,sum(n.kids,k=>k.total),1e-9);
    /* those too narrow to see are one box */
    const kids=n.kids.sort((a,b)=>b.total-a.total),wide=kids.filter(k=>k.total*scale>=.15),rest=kids.slice(wide.length);
    for(const k of wide){put(k,at,k.total*scale,d+1);at+=k.total*scale}
    const left=sum(rest,k=>k.total),share=left*scale;if(share<.05)return;deep=Math.max(deep,d+1);
    boxes.push('<div class="rest'+(share<.4?' thin':'')+'" style="left:'+at+'%;width:'+share+'%;top:'+(d+1)*row+'px" data-tip="'+rest.length+' more: '+time(left)+'">'+(share>4?rest.length+' more':'')+'</div>')};
  put(start,0,100,0);
  const box=$('flame');box.style.height=(deep+1)*row+'px';box.innerHTML=boxes.join('');
  box.onclick=ev=>{const t=ev.target.closest('div[data-path]');if(!t){zoom='';flame();return}
    const n=nodes.get(t.dataset.path);zoom=zoom===n.key?n.parent:n.key;flame()};
}

/* what changed from the baseline, by what it costs: calls as now, at the old and at the new mean */
function change(){
  if(!BASELINE)return;
  const old=new Map(BASELINE.entries.map(e=>[e.name,e])),now=new Map(E.map(e=>[e.name,e]));
  const rows=[...new Set([...old.keys(),...now.keys()])].map(name=>{const a=old.get(name),b=now.get(name);
    return {e:b||a,a,b,delta:(b?b.self_ns:0)-(a?a.self_ns:0),ratio:a&&b&&a.mean_ns>0?b.mean_ns/a.mean_ns:null}})
    .sort((x,y)=>Math.abs(y.delta)-Math.abs(x.delta));
  const most=Math.max(...rows.map(r=>Math.abs(r.delta)),1),before=BASELINE.whole_ns,after=PROFILE.whole_ns;
  const tone=d=>d>0?'bad':d<0?'good':'',signed=ns=>(ns>0?'+':ns<0?'−':'')+time(Math.abs(ns));
  const bar=r=>{const w=50*Math.abs(r.delta)/most;return '<span class="track"><span class="zero"></span><span class="fill" style="width:'+w+'%;'+
    (r.delta>0?'left:50%;background:var(--bad)':'right:50%;background:var(--good)')+'"></span></span>'};
  const s=$('change');s.hidden=false;
  s.innerHTML='<h2>What changed</h2><p class="soft">'+esc(BASELINE_NAME)+': '+time(before)+', '+esc(NAME)+': '+time(after)+' (<b class="'+tone(after-before)+'">'+signed(after-before)+
    (before>0?', '+(after>=before?'+':'−')+percent(Math.abs(after/before-1)):'')+'</b>). Self time by problem, sorted by the change.</p>'+
    '<div class="delta soft small"><span></span><span></span><span class="v">'+[BASELINE_NAME,NAME].map(n=>esc(n.replace(/\.json$/,'').slice(0,12))).join('</span><span class="v">')+'</span><span class="v">change</span><span class="v">per call</span></div>'+
    rows.slice(0,20).map(r=>'<div class="delta" data-tip="'+esc(r.e.name+': '+(r.a?time(r.a.self_ns)+' in '+big(r.a.count)+' calls':'absent')+' → '+(r.b?time(r.b.self_ns)+' in '+big(r.b.count)+' calls':'absent'))+
    '"'+(r.b?' data-i="'+r.b.i+'"':'')+'><span class="name">'+label(r.e)+'</span>'+bar(r)+'<span class="v num soft">'+(r.a?time(r.a.self_ns):'–')+'</span><span class="v num">'+(r.b?time(r.b.self_ns):'–')+'</span><span class="v num '+tone(r.delta)+'">'+signed(r.delta)+
    '</span><span class="v num soft">'+(r.ratio?'×'+r.ratio.toFixed(2):r.a?'gone':'new')+'</span></div>').join('')+
    (rows.length>20?'<p class="soft small">'+(rows.length-20)+' more with smaller changes.</p>':'')+
    '<div class="key"><span><i style="background:var(--good)"></i>less time</span><span><i style="background:var(--bad)"></i>more time</span></div>';
}

function draw(){bars();roofline();detail();table()}
change();draw();flame();
)html";

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
